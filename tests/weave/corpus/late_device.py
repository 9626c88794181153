"""The model is moved to its device only after its optimizer has been created."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
x = torch.randn(40, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)


def moved():
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a.to(device)), b.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("moved", epoch, total / len(loader))


def moved_and_assigned():
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model = model.to(device)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a.to(device)), b.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("moved_and_assigned", epoch, total / len(loader))


def moved_if_there_is_a_gpu():
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    if torch.cuda.is_available():
        model.cuda()
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(a.to(device)), b.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("moved_if_there_is_a_gpu", epoch, total / len(loader))


moved()
moved_and_assigned()
moved_if_there_is_a_gpu()
