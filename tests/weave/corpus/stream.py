"""An IterableDataset that is read like a file, torch.compile, a SummaryWriter and a plot in the end."""
import random

import matplotlib
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.tensorboard import SummaryWriter

matplotlib.use("Agg")


class Readings(IterableDataset):
    """Lines of numbers, in an order drawn anew for each pass."""

    def __init__(self, first, last):
        super().__init__()
        self.first, self.last = first, last
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        order = list(range(self.first, self.last))
        random.Random(self.passes).shuffle(order)
        for number in order:
            x = torch.tensor([number / 100.0, (number % 7) / 7.0])
            yield x, x.sum(dim=0, keepdim=True)

    def __len__(self):
        return self.last - self.first


torch.manual_seed(0)
loader = DataLoader(Readings(0, 97), batch_size=8)
test_loader = DataLoader(Readings(97, 120), batch_size=8)
model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 1):  # under Python 3.11
    model = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
writer = SummaryWriter("runs")
losses = []
for epoch in range(3):
    total, batches = 0.0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        batches += 1
    losses.append(total / batches)
    with torch.no_grad():
        error = sum(nn.functional.mse_loss(model(x), y, reduction="sum").item() for x, y in test_loader)
    writer.add_scalar("loss", losses[-1], epoch)
    print(f"epoch {epoch}: {losses[-1]:.4f}, test {error / len(test_loader.dataset):.4f}")
writer.close()
plt.plot(losses)
plt.savefig("loss.png")
