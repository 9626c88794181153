"""A variational autoencoder: the loss is a sum, figures are per sample, what is drawn in the step differs between processes."""
# not equal: noise is drawn in the step
# other output: so the figures differ
import logging

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def step_of(model, loss, optimizer, **options):
    """Telar's step of an optimizer, which keeps it from one call to the next."""
    if not hasattr(optimizer, "telar_step"):
        optimizer.telar_step = tt.Step(model, loss, optimizer, **options, **TELAR)
    optimizer.telar_step.loss = loss
    return optimizer.telar_step

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger(__name__)
torch.manual_seed(2)
images = torch.rand(48, 9)


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.encode = nn.Linear(9, 6)
        self.mean, self.variance = nn.Linear(6, 2), nn.Linear(6, 2)
        self.decode = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 9), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.encode(x))
        mu, logvar = self.mean(h), self.variance(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decode(z), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="mean")
    kld = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(images, batch_size=6, shuffle=True)


def train(epoch):
    model.train()
    train_loss = 0

    def loss_of_batch(model, batch):
        recon, mu, logvar = model(batch)
        loss = loss_function(recon, batch, mu, logvar)
        return loss

    step = step_of(model, loss_of_batch, optimizer)
    for i, batch in enumerate(loader):
        loss = torch.tensor(step(batch))
        train_loss += loss.item()
    step.sync()
    log.info("epoch %d %.4f", epoch, train_loss / len(loader))


for epoch in range(1, 3):
    train(epoch)
with torch.no_grad():
    sample = model.decode(torch.zeros(1, 2))
    with open("sample.txt", "w") as file:
        file.write(str(tuple(sample.shape)))
