"""A GAN of curves: each step draws curves and noise at random; the discriminator is applied once in it."""
import numpy as np
import torch
import torch.nn as nn

points = np.linspace(-1, 1, 9)
count = 10


def curves():
    heights = np.random.uniform(1, 2, size=count)[:, np.newaxis]
    return torch.from_numpy(heights * points**2 + heights - 1).float()


np.random.seed(8)
torch.manual_seed(8)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 9))
discriminator = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
g_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
d_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.01)
for step in range(12):
    real = curves()
    ideas = torch.randn(count, 4)
    fake = generator(ideas)
    g_loss = torch.mean(torch.log(1.0 - discriminator(fake)))
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
    of_real = discriminator(real)
    of_fake = discriminator(fake.detach())
    d_loss = -torch.mean(torch.log(of_real) + torch.log(1.0 - of_fake))
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    if step % 4 == 0:
        print("step", step, "real", of_real.mean().item(), "loss", d_loss.item(), "largest", fake.max().item())
