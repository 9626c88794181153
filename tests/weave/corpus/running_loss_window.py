"""PyTorch's tutorial: the loss of every few batches, the last one returned; validation by enumerate."""
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

def train_one_epoch(epoch_index):
    running_loss = 0.
    last_loss = 0.
    for i, data in enumerate(train_loader):
        inputs, labels = data
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if i % 3 == 2:
            last_loss = running_loss / 3
            print('  batch {} loss: {}'.format(i + 1, last_loss))
            running_loss = 0.
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
