"""An average of the weights in a copy of the model, mixup, the best weights in memory."""
import copy
import numpy as np
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, Dataset

torch.manual_seed(0)
x = torch.randn(60, 4)
y = (x.sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True)
val_loader = DataLoader(TensorDataset(x[:20], y[:20]), batch_size=5)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
criterion = nn.CrossEntropyLoss()

optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)

@torch.no_grad()
def update_ema(ema, model, decay=0.9):
    for a, b in zip(ema.parameters(), model.parameters()):
        a.mul_(decay).add_(b, alpha=1 - decay)

def mixup(a, b, alpha=0.2):
    lam = np.random.beta(alpha, alpha)
    index = torch.randperm(a.size(0))
    return lam * a + (1 - lam) * a[index], b, b[index], lam

best_acc, best = 0.0, copy.deepcopy(model.state_dict())
for epoch in range(2):
    model.train()
    for a, b in train_loader:
        mixed, ya, yb, lam = mixup(a, b)
        out = model(mixed)
        loss = lam * criterion(out, ya) + (1 - lam) * criterion(out, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema(ema, model)
    ema.eval()
    correct = total = 0
    with torch.no_grad():
        for a, b in val_loader:
            correct += (ema(a).argmax(1) == b).sum().item()
            total += len(b)
    acc = correct / total
    if acc > best_acc:
        best_acc = acc
        best = copy.deepcopy(model.state_dict())
    print(f"epoch {epoch} acc {acc:.3f}")
model.load_state_dict(best)
torch.save(ema.state_dict(), "ema.pt")
