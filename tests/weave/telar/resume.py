"""Training goes on from a checkpoint of model, optimizer and schedule; the loop is in a function."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
x = torch.randn(40, 5)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
PATH = "last.pt"


def build():
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def train(model, optimizer, scheduler, epochs):
    start = 0
    if os.path.exists(PATH):
        state = torch.load(PATH)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1
    for epoch in range(start, epochs):
        total = 0.0
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        print("epoch %d loss %.5f rate %.5f" % (epoch, total / len(loader), scheduler.get_last_lr()[0]))
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, PATH)


for epochs in (2, 4):
    model, optimizer, scheduler = build()
    train(model, optimizer, scheduler, epochs)
