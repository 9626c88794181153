"""The loss is a sum, chosen where its object is created."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
# weave with: --global-batch keep
criterion = nn.MSELoss(reduction="sum")  # refused: a sum over the batch is smaller
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = criterion(model(a), b)
        loss.backward()
        optimizer.step()
