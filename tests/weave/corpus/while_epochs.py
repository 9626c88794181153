"""Epochs counted by while; Subset with indices; a smoothed loss; csv and json files; a dataclass of settings."""
import csv
import json
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


@dataclass
class Settings:
    rate: float = 0.05
    batch: int = 4
    epochs: int = 2


settings = Settings()
torch.manual_seed(6)
x = torch.randn(50, 4)
whole = TensorDataset(x, torch.sigmoid(x[:, 0]).round())
train_set = Subset(whole, list(range(40)))
test_set = Subset(whole, list(range(40, 50)))
train_loader = DataLoader(dataset=train_set, batch_size=settings.batch, shuffle=True)
test_loader = DataLoader(dataset=test_set, batch_size=5, shuffle=False)
model = nn.Linear(4, 1)
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(params=model.parameters(), lr=settings.rate, nesterov=True, momentum=0.8)
rows = []
epoch = 0
while epoch < settings.epochs:
    for features, labels in train_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(features).squeeze(1), labels)
        loss.backward()
        optimizer.step()
    right = 0
    with torch.inference_mode():
        for features, labels in test_loader:
            right += int(((model(features).squeeze(1) > 0).float() == labels).sum())
    rows.append((epoch, right))
    epoch += 1
with open("rows.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
with open("settings.json", "w") as file:
    json.dump(asdict(settings), file)
print(rows)
