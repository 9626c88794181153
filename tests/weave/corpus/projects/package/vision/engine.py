import torch

from .config import PATH
from .metrics import accuracy


class Trainer:
    def __init__(self, model, optimizer, train_loader, test_loader):
        self.model = model
        self.optimizer = optimizer
        self.train_loader = train_loader
        self.test_loader = test_loader
        self.loss = torch.nn.CrossEntropyLoss()
        self.history = []

    def epoch(self, epoch):
        self.model.train()
        total, count = 0.0, 0
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            loss = self.loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
        return total / count

    def fit(self, epochs):
        best = 0.0
        for epoch in range(epochs):
            loss = self.epoch(epoch)
            right = accuracy(self.model, self.test_loader)
            self.history.append((loss, right))
            print(f"{epoch}: loss {loss:.4f}, {right:.3f} right")
            if right >= best:
                best = right
                self.save(epoch)

    def save(self, epoch):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": epoch}, PATH)

    def load(self, path):
        state = torch.load(path, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
