"""A trainer whose method makes one step, and another method has the loop; a batch is a dictionary."""
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(2)
        self.x = torch.rand(count, 3, generator=generator)
        self.weight = torch.rand(count, generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "weight": self.weight[i], "y": self.x[i].sum()}


class Trainer:
    def __init__(self, model, loader, rate):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)

    def step(self, batch):
        self.model.train()
        self.optimizer.zero_grad()
        predicted = self.model(batch["x"])
        errors = F.mse_loss(predicted[:, 0], batch["y"], reduction="none")
        self.loss = (errors * batch["weight"]).mean()
        self.loss.backward()
        self.optimizer.step()
        return self.loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [0.0]
            for batch in self.loader:
                losses.append(self.step(batch))
            print(f"epoch {epoch}: {sum(losses):.5f}, weights {self.model[0].weight.abs().sum().item():.4f}")


torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, 1))
trainer = Trainer(network, DataLoader(Pairs(36), batch_size=6, shuffle=True), 0.1)
trainer.fit(3)
torch.save(trainer.model.state_dict(), "pairs.pt")
