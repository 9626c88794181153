"""The block of a main program begins with an import; torch.multiprocessing only serves the loader."""
import torch
import torch.multiprocessing
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.multiprocessing.set_sharing_strategy("file_system")


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


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    train(parser.parse_args().epochs)
