"""A fixed batch, taken by next(iter(loader)), is evaluated after each epoch."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)

fixed = next(iter(loader))[0]
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(f"epoch {epoch} {model(fixed).mean().item():.4f}")
