"""An EarlyStopping object is called with the model; lists of losses are averaged with NumPy."""
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

class EarlyStopping:
    def __init__(self, patience=2, path="checkpoint.pt"):
        self.patience, self.path, self.counter, self.best, self.stop = patience, path, 0, None, False
    def __call__(self, val_loss, model):
        score = -val_loss
        if self.best is None or score > self.best:
            self.best = score
            self.counter = 0
            torch.save(model.state_dict(), self.path)
        else:
            self.counter += 1
            self.stop = self.counter >= self.patience

optimizer = optim.Adam(model.parameters(), lr=0.01)
early_stopping = EarlyStopping()
avg_train_losses = []
for epoch in range(1, 4):
    train_losses, valid_losses = [], []
    model.train()
    for batch, (data, target) in enumerate(train_loader, 1):
        optimizer.zero_grad()
        loss = criterion(model(data), target)
        loss.backward()
        optimizer.step()
        train_losses.append(loss.item())
    model.eval()
    for data, target in val_loader:
        valid_losses.append(criterion(model(data), target).item())
    train_loss = np.average(train_losses)
    valid_loss = np.average(valid_losses)
    avg_train_losses.append(train_loss)
    print(f'[{epoch}] train_loss: {train_loss:.5f} valid_loss: {valid_loss:.5f}')
    early_stopping(valid_loss, model)
    if early_stopping.stop:
        print("Early stopping")
        break
model.load_state_dict(torch.load('checkpoint.pt'))
