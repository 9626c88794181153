"""requires_grad of the discriminator is switched off while the generator is trained."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=5, shuffle=True)
G = nn.Linear(2, 4)
D = nn.Linear(4, 1)
opt_g = optim.Adam(G.parameters(), lr=1e-3)
opt_d = optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(2):
    for (real,) in loader:
        z = torch.randn(real.size(0), 2)
        fake = G(z)
        set_requires_grad(D, True)
        opt_d.zero_grad()
        d_loss = bce(D(real), torch.ones(real.size(0), 1)) + bce(D(fake.detach()), torch.zeros(real.size(0), 1))
        d_loss.backward()
        opt_d.step()
        set_requires_grad(D, False)
        opt_g.zero_grad()
        g_loss = bce(D(fake), torch.ones(real.size(0), 1))
        g_loss.backward()
        opt_g.step()
    print(f"epoch {epoch} {d_loss.item():.4f} {g_loss.item():.4f}")
