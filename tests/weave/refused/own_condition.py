"""Whether a step is made depends on the batch."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        if loss.item() > 0.1:  # refused: whether a process makes this step depends on its own batch
            loss.backward()
            optimizer.step()
