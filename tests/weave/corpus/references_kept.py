"""The model is used through references that were made before its optimizer: an object, a closure, a variable."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, net):
        self.net = net

    def loss(self, a, b):
        return nn.functional.mse_loss(self.net(a), b)


class State:
    pass


def loss_of(net):
    def compute(a, b):
        return nn.functional.mse_loss(net(a), b)

    return compute


torch.manual_seed(0)
x = torch.randn(40, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)


def in_object():
    model = nn.Linear(4, 1)
    trainer = Trainer(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = trainer.loss(a, b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_object", epoch, total / len(loader))


def in_attribute():
    model = nn.Linear(4, 1)
    state = State()
    state.model = model
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(state.model(a), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_attribute", epoch, total / len(loader))
    torch.save(state.model.state_dict(), "attribute.pt")


def in_closure():
    model = nn.Linear(4, 1)
    compute = loss_of(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = compute(a, b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_closure", epoch, total / len(loader))


def in_variable():
    model = nn.Linear(4, 1)
    net = model
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        total = 0.0
        for a, b in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(a), b)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("in_variable", epoch, total / len(loader))
    torch.save(net.state_dict(), "variable.pt")


in_object()
in_attribute()
in_closure()
in_variable()
