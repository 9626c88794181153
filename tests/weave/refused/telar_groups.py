"""For telar: a group of parameters has its own rate."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
optimizer = optim.SGD([
    {"params": model[0].parameters(), "lr": 0.01},  # refused: groups of parameters have options of their own
    {"params": model[1].parameters()},
], lr=0.1)
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
