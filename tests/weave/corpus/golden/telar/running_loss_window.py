"""PyTorch's tutorial: the loss of every few batches, the last one returned; validation by enumerate."""
import copy
import numpy as np
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, Dataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def step_of(model, loss, optimizer, **options):
    """Telar's step of an optimizer, which keeps it from one call to the next."""
    if not hasattr(optimizer, "telar_step"):
        optimizer.telar_step = tt.Step(model, loss, optimizer, **options, **TELAR)
    optimizer.telar_step.loss = loss
    return optimizer.telar_step

torch.manual_seed(0)
x = torch.randn(60, 4)
y = (x.sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True)
val_loader = DataLoader(TensorDataset(x[:20], y[:20]), batch_size=5)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
criterion = nn.CrossEntropyLoss()

optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

def train_one_epoch(epoch_index):
    running_loss = 0.
    last_loss = 0.
    step = step_of(model, criterion, optimizer)
    for i, data in enumerate(train_loader):
        inputs, labels = data
        loss = torch.tensor(step(inputs, labels))
        running_loss += loss.item()
        if i % 3 == 2:
            last_loss = running_loss / 3
            print('  batch {} loss: {}'.format(i + 1, last_loss))
            running_loss = 0.
    step.sync()
    return last_loss

best_vloss = 1_000_000.
for epoch in range(2):
    model.train(True)
    avg_loss = train_one_epoch(epoch)
    running_vloss = 0.0
    model.eval()
    with torch.no_grad():
        for i, vdata in enumerate(val_loader):
            vinputs, vlabels = vdata
            vloss = criterion(model(vinputs), vlabels)
            running_vloss += vloss
    avg_vloss = running_vloss / (i + 1)
    print('LOSS train {} valid {}'.format(avg_loss, avg_vloss))
    if avg_vloss < best_vloss:
        best_vloss = avg_vloss
        torch.save(model.state_dict(), 'model_{}'.format(epoch))
