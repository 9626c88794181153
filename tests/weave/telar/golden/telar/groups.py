"""Groups of parameters with a rate and a decay of their own, and a schedule for both."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}

torch.manual_seed(0)
x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = optim.AdamW([
    {"params": model[0].parameters(), "lr": 0.001, "weight_decay": 0.0},
    {"params": model[2].parameters()},
], lr=0.01)
scheduler = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
step = tt.Step(model, nn.functional.cross_entropy, optimizer, **TELAR)
for epoch in range(3):
    for inputs, labels in loader:
        loss = torch.tensor(step(inputs, labels))
    step.sync()
    scheduler.step()
    print(epoch, loss.item())
