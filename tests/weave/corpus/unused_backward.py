"""A function with a backward pass that nothing calls; a trainer with configure_optimizers."""
# not for horovod: the optimizer is created in another method than its model
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)

def grad_check(model, value):
    out = model(value).sum()
    out.backward()
    return value.grad

class Trainer:
    def configure_optimizers(self):
        return optim.SGD(self.model.parameters(), lr=0.05)
    def __init__(self, model):
        self.model = model
        self.optimizer = self.configure_optimizers()
    def fit(self, loader, epochs):
        for epoch in range(epochs):
            total = 0.0
            for a, b in loader:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(a), b)
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            print(f"epoch {epoch} loss {total / len(loader):.4f}")

Trainer(nn.Linear(4, 1)).fit(loader, 2)
