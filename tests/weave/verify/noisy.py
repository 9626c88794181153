"""What check_verify.py edits the woven form of: a split, noise, changed samples, an evaluation and files."""
import json

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Blobs(Dataset):
    def __init__(self, count):
        self.x = torch.linspace(-1, 1, 6 * count).reshape(count, 6)
        self.y = (self.x[:, :1] > 0).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + 0.1 * float(np.random.randn()), self.y[index]


torch.manual_seed(4)
np.random.seed(4)
whole = Blobs(70)
train_set, test_set = random_split(whole, [50, 20])
train_loader = DataLoader(train_set, batch_size=5, shuffle=True)
test_loader = DataLoader(test_set, batch_size=10)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
history = []
for epoch in range(2):
    model.train()
    total = 0.0
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x + 0.05 * torch.randn_like(x)), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    model.eval()
    error = 0.0
    with torch.no_grad():
        for x, y in test_loader:
            error += criterion(model(x), y).item()
    history.append(error)
    print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, test {error / len(test_loader):.4f}")
torch.save(model.state_dict(), "model.pt")
with open("history.json", "w") as file:
    json.dump(history, file)
