"""Early stopping by a class, the best weights kept in memory, ExponentialLR, random_split with a generator."""
import copy
import os

import torch
from torch.utils.data import DataLoader, TensorDataset, random_split
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.best = None
        self.bad = 0

    def should_stop(self, value):
        if self.best is None or value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad > self.patience


def fit(model, train_loader, valid_loader, epochs, path):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.001)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    criterion = torch.nn.L1Loss()
    stopper = EarlyStopping(patience=1)
    best = copy.deepcopy(model.state_dict())
    step = tt.Step(model, criterion, optimizer, **TELAR)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            step(x, y)
        step.sync()
        scheduler.step()
        model.eval()
        losses = []
        with torch.no_grad():
            for x, y in valid_loader:
                losses.append(criterion(model(x), y).item())
        value = sum(losses) / len(losses)
        if stopper.best is None or value < stopper.best:
            best = copy.deepcopy(model.state_dict())
        if stopper.should_stop(value):
            print("stopped")
            break
        print(f"{epoch}: {value:.4f}")
    model.load_state_dict(best)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.save(model.state_dict(), path)
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.rand(60, 3)
    whole = TensorDataset(x, x.mean(dim=1, keepdim=True))
    train_set, valid_set = random_split(whole, [48, 12], generator=torch.Generator().manual_seed(7))
    loaders = {
        "train": DataLoader(train_set, batch_size=4, shuffle=True),
        "valid": DataLoader(valid_set, batch_size=4),
    }
    fit(torch.nn.Linear(3, 1), loaders["train"], loaders["valid"], 3, "out/model.pt")
