"""Optimizer by functools.partial, loader options in a dictionary, the model from a table of constructors."""
import argparse
import sys
from functools import partial

import torch
from torch import nn
from torch.utils import data as torch_data

MODELS = {"small": lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))}


def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=2)
    return parser


def main(args):
    torch.manual_seed(4)
    x = torch.randn(48, 6)
    y = x[:, :3].argmax(dim=1)
    options = {"batch_size": args.batch_size, "shuffle": True, "drop_last": False}
    loader = torch_data.DataLoader(torch_data.TensorDataset(x, y), **options)
    net = MODELS["small"]()
    make = partial(torch.optim.SGD, lr=args.lr, momentum=0.9)
    optimizer = make(net.parameters())
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        seen = 0
        running = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(net(inputs), targets)
            loss.backward()
            optimizer.step()
            running += loss.item() * inputs.size(0)
            seen += inputs.size(0)
        print("epoch %d loss %.4f" % (epoch, running / seen))
    torch.save(net.state_dict(), "net.pt")


if __name__ == "__main__":
    sys.exit(main(get_parser().parse_args()))
