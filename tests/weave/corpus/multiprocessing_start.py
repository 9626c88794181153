"""How loaders start their workers is chosen in the main program, on one line."""
import torch
import torch.multiprocessing as mp
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train(epochs):
    mp.set_start_method("fork", force=True)
    torch.manual_seed(0)
    x = torch.randn(40, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True, num_workers=2)
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


if __name__ == "__main__": train(2)
