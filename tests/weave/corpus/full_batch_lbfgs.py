"""Each step computes the gradient of all samples at once, as first lessons on regression do."""
import torch
from torch import nn

x = torch.linspace(-1, 1, 100).unsqueeze(1)
y = x.pow(2)
model = nn.Sequential(nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2)
for step in range(20):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # refused: computes the gradient of all samples at once (full batch)
        return loss

    optimizer.step(closure)
