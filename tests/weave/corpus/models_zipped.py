"""Several networks in a list, each with its own optimizer, are trained side by side: for net, optimizer in zip(…)."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
x = torch.linspace(-1, 1, 60).unsqueeze(1)
loader = DataLoader(TensorDataset(x, x.pow(2)), batch_size=10, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(1, 12), nn.Linear(12, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


plain, heavy = Net(), Net()
nets = [plain, heavy]
first = torch.optim.SGD(plain.parameters(), lr=0.05)
second = torch.optim.SGD(heavy.parameters(), lr=0.05, momentum=0.8)
optimizers = [first, second]
criterion = nn.MSELoss()
for epoch in range(2):
    for batch, target in loader:
        for net, optimizer in zip(nets, optimizers):
            loss = criterion(net(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        print("epoch", epoch, [round(criterion(net(x), x.pow(2)).item(), 4) for net in nets])
