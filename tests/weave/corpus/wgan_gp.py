"""A gradient penalty by autograd.grad; the generator is trained in every third step."""
import torch
from torch import nn, optim, autograd
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=5, shuffle=True)
G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = optim.Adam(G.parameters(), lr=1e-4, betas=(0.5, 0.9))
opt_d = optim.Adam(D.parameters(), lr=1e-4, betas=(0.5, 0.9))

def gradient_penalty(D, real, fake):
    alpha = torch.rand(real.size(0), 1)
    inter = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    d = D(inter)
    grads = autograd.grad(outputs=d, inputs=inter, grad_outputs=torch.ones_like(d), create_graph=True,
                          retain_graph=True, only_inputs=True)[0]
    return ((grads.norm(2, dim=1) - 1) ** 2).mean()

for epoch in range(2):
    for i, (real,) in enumerate(loader):
        opt_d.zero_grad()
        z = torch.randn(real.size(0), 2)
        fake = G(z).detach()
        d_loss = -D(real).mean() + D(fake).mean() + 10 * gradient_penalty(D, real, fake)
        d_loss.backward()
        opt_d.step()
        if i % 3 == 0:
            opt_g.zero_grad()
            g_loss = -D(G(z)).mean()
            g_loss.backward()
            opt_g.step()
    print(f"epoch {epoch} d {d_loss.item():.4f} g {g_loss.item():.4f}")
