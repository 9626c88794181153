"""Two loaders are zipped, and one of them is used alone."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
a = torch.randn(40, 4)
b = torch.randn(40, 4) + 1
loader_a = DataLoader(TensorDataset(a), batch_size=5, shuffle=True)
loader_b = DataLoader(TensorDataset(b), batch_size=5, shuffle=True)
model = nn.Linear(4, 4)
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    total = 0.0
    for (xa,), (xb,) in zip(loader_a, loader_b):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(xa), xb)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader_a):.4f}")
for epoch in range(2):
    total = 0.0
    for (xa,) in loader_a:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(xa), xa)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader_a):.4f}")
