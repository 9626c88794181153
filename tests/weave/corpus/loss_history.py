"""Histories of means in a dictionary; evaluation in a list comprehension."""
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

optimizer = optim.SGD(model.parameters(), lr=0.05)
history = {"loss": [], "acc": []}
def accuracy(out, b):
    return (out.argmax(1) == b).float().mean()
def fit(epochs):
    for epoch in range(epochs):
        epoch_loss, epoch_acc = 0, 0
        model.train()
        for a, b in train_loader:
            out = model(a)
            loss, acc = criterion(out, b), accuracy(out, b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item()
            epoch_acc += acc.item()
        history["loss"].append(epoch_loss / len(train_loader))
        history["acc"].append(epoch_acc / len(train_loader))
        with torch.inference_mode():
            model.eval()
            val = torch.stack([criterion(model(a), b) for a, b in val_loader]).mean()
        print(f"{epoch} {history['loss'][-1]:.4f} {history['acc'][-1]:.4f} {val:.4f}")
fit(2)
