"""Heads of which each step uses one, in a ModuleDict."""
import random
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"x": nn.Linear(4, 1), "y": nn.Linear(4, 1)})
        self.body = nn.Linear(4, 4)
    def forward(self, x, head):
        return self.heads[head](torch.tanh(self.body(x)))

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = Net()
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    total = 0.0
    for step, (a, b) in enumerate(loader):
        opt.zero_grad()
        head = "x" if step % 2 == 0 else "y"
        loss = nn.functional.mse_loss(model(a, head), b)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f}")
