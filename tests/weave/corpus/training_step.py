"""Lightning-like: the model has training_step, validation_step and configure_optimizers."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class LitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    def forward(self, x):
        return self.net(x)
    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)
    def validation_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)

class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs
    def fit(self, model, train_loader, val_loader):
        optimizer = model.configure_optimizers()
        for epoch in range(self.max_epochs):
            model.train()
            for i, batch in enumerate(train_loader):
                loss = model.training_step(batch, i)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                losses = [model.validation_step(batch, i).item() for i, batch in enumerate(val_loader)]
            print(epoch, sum(losses) / len(losses))

torch.manual_seed(0)
x = torch.randn(60, 4)
y = (x.sum(1) > 0).long()
Trainer(2).fit(LitModel(), DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True),
               DataLoader(TensorDataset(x[:20], y[:20]), batch_size=5))
