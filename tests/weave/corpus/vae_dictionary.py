"""Losses in a dictionary, summed in a dictionary; a weight that grows with the steps."""
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc21 = nn.Linear(8, 2)
        self.fc22 = nn.Linear(8, 2)
        self.fc3 = nn.Linear(2, 6)
    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)
    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std
    def forward(self, x):
        mu, logvar = self.encode(x)
        return torch.sigmoid(self.fc3(self.reparameterize(mu, logvar))), mu, logvar

def loss_function(recon, x, mu, logvar, beta):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return {"loss": bce + beta * kld, "bce": bce.item(), "kld": kld.item()}

torch.manual_seed(1)
loader = DataLoader(TensorDataset(torch.rand(60, 6)), batch_size=5, shuffle=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
step = 0
for epoch in range(2):
    totals = {"loss": 0.0, "bce": 0.0, "kld": 0.0}
    for (x,) in loader:
        beta = min(1.0, step / 20)
        recon, mu, logvar = model(x)
        losses = loss_function(recon, x, mu, logvar, beta)
        optimizer.zero_grad()
        losses["loss"].backward()
        optimizer.step()
        totals["loss"] += losses["loss"].item()
        totals["bce"] += losses["bce"]
        totals["kld"] += losses["kld"]
        step += 1
    print(epoch, {k: round(v / len(loader.dataset), 3) for k, v in totals.items()})
