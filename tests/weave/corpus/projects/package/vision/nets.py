import torch.nn as nn
import torch.nn.functional as F


class Small(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        return self.last(F.relu(self.first(x)))


def make(width):
    return Small(width)


if __name__ == "__main__":
    # Tried by hand; not run when the module is imported.
    print(make(4))
