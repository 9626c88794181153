"""LBFGS over all samples at once: its closure's loss, by which it searches, is that of all processes."""
import torch
from torch import nn

# not for horovod: LBFGS
torch.manual_seed(5)
x = torch.linspace(-1, 1, 101).unsqueeze(1)
y = (2 * x).exp() + 0.05 * torch.randn(x.size())
model = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=5, line_search_fn="strong_wolfe")
for step in range(6):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"step {step}: {loss.item():.4f}")
with torch.no_grad():
    print(f"all: {nn.functional.mse_loss(model(x), y).item():.4f}")
