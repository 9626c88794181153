"""Several backward passes after one forward pass: the losses of a GAN that applies its discriminator once."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
bce = nn.BCEWithLogitsLoss()
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
discriminator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
encoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
opt_e = torch.optim.SGD(encoder.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(96, 2)), batch_size=8, shuffle=True)


def losses_of(real, noise):
    fake = generator(noise)
    on_real, on_fake = discriminator(real), discriminator(fake)
    ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
    return fake, bce(on_fake, ones), bce(on_real, ones) + bce(on_fake, zeros)


for epoch in range(2):
    for i, (real,) in enumerate(loader):
        noise = torch.randn(len(real), 4)
        if i == 3:  # a step of the encoder alone
            opt_e.zero_grad()
            code = encoder(real)
            code.pow(2).mean().backward(retain_graph=True)
            code.abs().mean().backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), 100.0)
            opt_e.step()
            continue
        fake, g_loss, d_loss = losses_of(real, noise)
        opt_g.zero_grad()
        g_loss.backward(retain_graph=True)
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        opt_g.step()
    print(f"epoch {epoch} g {g_loss.item():.4f} d {d_loss.item():.4f}")
torch.save(discriminator.state_dict(), "discriminator.pt")
