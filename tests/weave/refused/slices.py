"""Batches are slices of a tensor, not those of a loader."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    order = torch.randperm(60)
    for i in range(0, 60, 10):
        a = x[order[i:i + 10]]
        optimizer.zero_grad()
        model(a).mean().backward()  # refused: does not come from a loop over a torch.utils.data.DataLoader
        optimizer.step()
