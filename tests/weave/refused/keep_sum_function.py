"""The loss is a sum, computed in a function."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
# weave with: --global-batch keep


def loss_function(a, b):
    kld = -0.5 * torch.sum(1 + a)  # refused: a sum over the batch is smaller
    return nn.functional.mse_loss(a, b) + kld


for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = loss_function(model(a), b)
        loss.backward()
        optimizer.step()
