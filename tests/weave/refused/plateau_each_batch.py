"""ReduceLROnPlateau receives the loss of each batch."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.item())  # refused: so the rates would part
