"""The parts of a random permutation, by split(); several statements on a line."""
import torch
from torch import nn

torch.manual_seed(4)
X = torch.randn(41, 3)
y = (X.sum(1) > 0).float().unsqueeze(1)
model = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for idx in torch.randperm(len(X)).split(8):
        out = model(X[idx])
        loss = nn.BCELoss()(out, y[idx])
        opt.zero_grad(); loss.backward(); opt.step()
    print("epoch", epoch, "last loss", loss.item()); right = (model(X).round() == y).float().mean().item()
    print("accuracy", right)
