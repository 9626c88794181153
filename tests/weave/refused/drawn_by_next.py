"""Batches are drawn one at a time with next() for a number of steps, as in minGPT's trainer."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
batches = iter(loader)
step = 0
while True:
    try:
        a, b = next(batches)  # refused: one at a time with next()
    except StopIteration:
        batches = iter(loader)
        a, b = next(batches)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(a), b)
    loss.backward()
    optimizer.step()
    step += 1
    if step >= 20:
        break
