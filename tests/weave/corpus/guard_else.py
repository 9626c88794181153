"""The name is compared in the other order, with an else; the block begins with a try around an import."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train(epochs):
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(loader))


if "__main__" == __name__:
    try:
        import argparse
    except ImportError:
        raise SystemExit("argparse is missing")
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    train(parser.parse_args().epochs)
else:
    print("imported")
