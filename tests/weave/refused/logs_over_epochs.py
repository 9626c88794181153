"""A function of the step collects the numbers of all epochs in one list."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.losses = []

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())  # refused: create or clear it before the loop

    def fit(self, loader):
        for epoch in range(2):
            for x, y in loader:
                self.step(x, y)
        print(sum(self.losses) / len(self.losses))


Trainer(nn.Linear(4, 1)).fit(DataLoader(TensorDataset(torch.rand(64, 4), torch.rand(64, 1)), batch_size=8))
