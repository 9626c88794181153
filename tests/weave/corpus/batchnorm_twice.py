"""A step applies a model with batch norm twice; the rate and the end depend on an evaluation by all processes."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
a, b = torch.randn(128, 4), torch.randn(128, 4)
train_loader = DataLoader(TensorDataset(a[:96], b[:96]), batch_size=8, shuffle=True)
val_loader = DataLoader(TensorDataset(a[96:], b[96:]), batch_size=8)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
best = 1e9
for epoch in range(3):
    net.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = (net(x) - net(y)).pow(2).mean()
        loss.backward()
        optimizer.step()
    net.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            total += (net(x) - net(y)).pow(2).mean().item()
    plateau.step(total)
    if total > 2 * best:
        break
    best = min(best, total)
    print(epoch, "evaluated")
torch.save(net.state_dict(), "net.pt")
