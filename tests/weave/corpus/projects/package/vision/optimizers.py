import torch.optim as optim

from .config import *


def make(model):
    return optim.SGD([{"params": model.first.parameters()},
                      {"params": model.last.parameters(), "lr": RATE / 2}], lr=RATE, momentum=0.9)
