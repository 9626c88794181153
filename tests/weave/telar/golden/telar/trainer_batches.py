"""A trainer whose method makes one step, and another method has the loop; a batch is a dictionary."""
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def step_of(model, loss, optimizer, **options):
    """Telar's step of an optimizer, which keeps it from one call to the next."""
    if not hasattr(optimizer, "telar_step"):
        optimizer.telar_step = tt.Step(model, loss, optimizer, **options, **TELAR)
    optimizer.telar_step.loss = loss
    return optimizer.telar_step


def sync_step(optimizer):
    """Writes the values that Telar has trained into the module and the optimizer."""
    if hasattr(optimizer, "telar_step"):
        optimizer.telar_step.sync()


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

        def loss_of_batch(model, x, y, weight):
            predicted = model(x)
            errors = F.mse_loss(predicted[:, 0], y, reduction="none")
            loss = (errors * weight).mean()
            return loss

        telar_step = step_of(self.model, loss_of_batch, self.optimizer)
        self.loss = torch.tensor(telar_step(batch["x"], batch["y"], batch["weight"]))
        return self.loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            losses = [0.0]
            for batch in self.loader:
                losses.append(self.step(batch))
            sync_step(self.optimizer)
            print(f"epoch {epoch}: {sum(losses):.5f}, weights {self.model[0].weight.abs().sum().item():.4f}")


torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, 1))
trainer = Trainer(network, DataLoader(Pairs(36), batch_size=6, shuffle=True), 0.1)
trainer.fit(3)
torch.save(trainer.model.state_dict(), "pairs.pt")
