"""A class derived from an optimizer of torch.optim under an alias; positional arguments of DataLoader."""
import torch as th
import torch.nn as nn
from torch.optim import AdamW as Opt
from torch.utils import data

class Own(Opt):
    pass

th.manual_seed(0)
x = th.randn(60, 4)
loader = data.DataLoader(data.TensorDataset(x, x.sum(1, keepdim=True)), 5, True)
model = nn.Linear(4, 1)
opt = Own(model.parameters(), lr=0.01)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f}")
