"""Training goes on from a checkpoint of model, optimizer and schedule; the loop is in a function."""
import os

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
    step = step_of(model, nn.functional.mse_loss, optimizer)
    for epoch in range(start, epochs):
        total = 0.0
        step.load()
        for inputs, targets in loader:
            loss = torch.tensor(step(inputs, targets))
            total += loss.item()
        step.sync()
        scheduler.step()
        print("epoch %d loss %.5f rate %.5f" % (epoch, total / len(loader), scheduler.get_last_lr()[0]))
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, PATH)


for epochs in (2, 4):
    model, optimizer, scheduler = build()
    train(model, optimizer, scheduler, epochs)
