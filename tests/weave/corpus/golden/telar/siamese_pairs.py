"""Pairs through the same network by one forward, a margin loss, a tuple of inputs; MultiStepLR and a plain seed function."""
import random

import numpy as np
import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


class Pairs(Dataset):
    def __init__(self, size):
        self.a = torch.randn(size, 4)
        self.b = torch.randn(size, 4)
        self.same = (torch.rand(size) > 0.5).float()

    def __len__(self):
        return len(self.same)

    def __getitem__(self, i):
        return (self.a[i], self.b[i]), self.same[i]


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, a, b):
        return (self.net(a) - self.net(b)).pow(2).sum(dim=1)


def contrastive(distance, same, margin=1.0):
    return (same * distance + (1 - same) * torch.clamp(margin - distance, min=0)).mean()


def run():
    set_seed(10)
    loader = DataLoader(Pairs(36), 6, True)
    model = Siamese()
    optimizer = optim.SGD(model.parameters(), 0.01)
    scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[1], gamma=0.1)

    def loss_of_batch(model, a, b, same):
        loss = contrastive(model(a, b), same)
        return loss

    step = tt.Step(model, loss_of_batch, optimizer, **TELAR)
    for epoch in range(2):
        history = []
        for (a, b), same in loader:
            loss = torch.tensor(step(a, b, same))
            history.append(loss.item())
        step.sync()
        scheduler.step()
        print(epoch, round(float(np.mean(history)), 3))


if __name__ == "__main__":
    run()
