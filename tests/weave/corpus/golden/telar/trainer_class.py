"""A trainer class that logs, splits its data and clips gradients."""
import os
import logging

import numpy as np
import torch as th
from torch import nn
from torch.utils.data import Dataset, DataLoader as Loader, random_split
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def step_of(model, loss, optimizer, **options):
    """Telar's step of an optimizer, which keeps it from one call to the next."""
    if not hasattr(optimizer, "telar_step"):
        optimizer.telar_step = tt.Step(model, loss, optimizer, **options, **TELAR)
    optimizer.telar_step.loss = loss
    return optimizer.telar_step

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("train")


class Sines(Dataset):
    def __init__(self, n):
        t = np.linspace(0, 6, n, dtype=np.float32)
        self.x = th.from_numpy(t).unsqueeze(1)
        self.y = th.sin(self.x)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Regressor(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x)


class Trainer:
    def __init__(self, model, train_set, val_set, lr=1e-2, out="out"):
        self.device = "cuda" if th.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.optimizer = th.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.MSELoss()
        self.train_loader = Loader(train_set, batch_size=8, shuffle=True)
        self.val_loader = Loader(val_set, batch_size=32)
        self.best = float("inf")
        self.out = out
        os.makedirs(out, exist_ok=True)

    def train_epoch(self, epoch):
        self.model.train()
        total, n = 0.0, 0
        step = step_of(self.model, self.criterion, self.optimizer, clip_norm=1.0)
        for x, y in self.train_loader:
            x, y = x.to(self.device), y.to(self.device)
            loss = th.tensor(step(x, y))
            total += loss.item() * x.size(0)
            n += x.size(0)
        step.sync()
        return total / n

    @th.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self.criterion(self.model(x.to(self.device)), y.to(self.device)).item() for x, y in self.val_loader]
        return sum(losses) / len(losses)

    def fit(self, epochs):
        for epoch in range(epochs):
            train_loss = self.train_epoch(epoch)
            val_loss = self.validate()
            log.info("epoch %d train %.4f val %.4f", epoch, train_loss, val_loss)
            if val_loss < self.best:
                self.best = val_loss
                self.save(os.path.join(self.out, "best.pt"))
        with open(os.path.join(self.out, "result.txt"), "w") as f:
            f.write(f"{self.best:.6f}\n")

    def save(self, path):
        th.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)


def main():
    data = Sines(128)
    train_set, val_set = random_split(data, [96, 32])
    trainer = Trainer(Regressor(), train_set, val_set)
    trainer.fit(3)


if __name__ == "__main__":
    main()
