"""Groups of parameters with a rate and a decay of their own, and a schedule for both."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

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
for epoch in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(epoch, loss.item())
