"""A layer that forward() does not use."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)
        self.b = nn.Linear(4, 1)
    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = Net()
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f}")
