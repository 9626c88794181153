"""The model is used through a list, a tuple or a dictionary that were made before its optimizer."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(40, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)


def in_list():
    model = nn.Linear(4, 1)
    nets = [model]
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(nets[0](a), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_list", epoch, total / len(loader))
    torch.save(nets[0].state_dict(), "list.pt")


def in_tuple():
    model = nn.Linear(4, 1)
    pair = (model, nn.MSELoss())
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(pair[0](a), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_tuple", epoch, total / len(loader))
    torch.save(pair[0].state_dict(), "tuple.pt")


def in_dictionary():
    model = nn.Linear(4, 1)
    nets = {"net": model}
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(nets["net"](a), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_dictionary", epoch, total / len(loader))
    for name, net in nets.items():
        torch.save(net.state_dict(), name + ".pt")


def in_loop():
    model = nn.Linear(4, 1)
    nets = [model]
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(sum(net(a) for net in nets), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_loop", epoch, total / len(loader))
    for number, net in enumerate(nets):
        torch.save(net.state_dict(), "loop%d.pt" % number)


in_list()
in_tuple()
in_dictionary()
in_loop()
