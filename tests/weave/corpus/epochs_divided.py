"""The case of document 001 for PyTorch: LR × size, epochs ÷ size, every process sees all samples."""
# weave with: --epochs divide
# not equal: every process sees all samples
# other output: so its figures differ
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)


def train(model, loader, optimizer, epoch):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.4f}")


def test(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(dim=1) == y).sum().item()
    print(f"accuracy {correct}/{len(loader.dataset)}")


def main():
    args = parser.parse_args()
    torch.manual_seed(3)
    x = torch.randn(96, 6)
    y = (x[:, 0] > x[:, 1]).long()
    train_loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[:32], y[:32]), batch_size=16)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(1, args.epochs + 1):
        train(model, train_loader, optimizer, epoch)
        test(model, test_loader)
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
