"""AverageMeter objects, as in PyTorch's ImageNet example, for training and validation."""
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def step_of(model, loss, optimizer, **options):
    """Telar's step of an optimizer, which keeps it from one call to the next."""
    if not hasattr(optimizer, "telar_step"):
        optimizer.telar_step = tt.Step(model, loss, optimizer, **options, **TELAR)
    optimizer.telar_step.loss = loss
    return optimizer.telar_step

class AverageMeter(object):
    def __init__(self, name, fmt=':f'):
        self.name = name
        self.fmt = fmt
        self.reset()
    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

def train(train_loader, model, criterion, optimizer, epoch):
    losses = AverageMeter('Loss', ':.4e')
    model.train()
    step = step_of(model, criterion, optimizer)
    for i, (images, target) in enumerate(train_loader):
        loss = torch.tensor(step(images, target))
        losses.update(loss.item(), images.size(0))
    step.sync()
    return losses.avg

def validate(val_loader, model, criterion):
    losses = AverageMeter('Loss', ':.4e')
    model.eval()
    with torch.no_grad():
        for images, target in val_loader:
            losses.update(criterion(model(images), target).item(), images.size(0))
    return losses.avg

torch.manual_seed(0)
x = torch.randn(60, 4)
y = (x.sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True)
val_loader = DataLoader(TensorDataset(x[:20], y[:20]), batch_size=5)
model = nn.Linear(4, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
best = 1e9
for epoch in range(2):
    loss = train(train_loader, model, criterion, optimizer, epoch)
    val = validate(val_loader, model, criterion)
    print(f"epoch {epoch} train {loss:.4f} val {val:.4f}")
    if val < best:
        best = val
        torch.save(model.state_dict(), "best.pt")
