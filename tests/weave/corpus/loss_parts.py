"""A loss that adds up parts in a loop over layers; two backward passes before one step."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.second = nn.Linear(12, 12)

    def forward(self, x):
        a = torch.relu(self.first(x))
        return a, torch.relu(self.second(a))


def gram(x):
    return x.t() @ x / len(x)


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(80, 6)), batch_size=8, shuffle=True)
fixed = Features()
for parameter in fixed.parameters():
    parameter.requires_grad = False
styles = [0.1 * torch.ones(12, 12), 0.2 * torch.ones(12, 12)]
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 6))
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
mse = nn.MSELoss()
for epoch in range(2):
    for (x,) in loader:
        optimizer.zero_grad()
        y = net(x)
        content = 0.0
        for of_y, of_x in zip(fixed(y), fixed(x)):
            content += mse(of_y, of_x)
        smooth = 0.0
        for one in fixed(y):
            smooth += one.abs().mean()
        smooth *= 0.1
        total = content + smooth
        total.backward(retain_graph=True)
        # A second loss of the same output.
        y.pow(2).mean().backward()
        optimizer.step()
    print("epoch", epoch)
torch.save(net.state_dict(), "net.pt")
