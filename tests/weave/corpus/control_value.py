"""A number of each batch controls the next steps (BEGAN)."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x), batch_size=5, shuffle=True)
netG = nn.Linear(2, 4)
netD = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 4))
optG = optim.Adam(netG.parameters(), lr=1e-3)
optD = optim.Adam(netD.parameters(), lr=1e-3)
k, gamma, lambda_k = 0.0, 0.75, 0.01
for epoch in range(2):
    for i, (real,) in enumerate(loader):
        z = torch.randn(real.size(0), 2)
        optG.zero_grad()
        fake = netG(z)
        g_loss = torch.mean(torch.abs(netD(fake) - fake))
        g_loss.backward()
        optG.step()
        optD.zero_grad()
        d_real = torch.mean(torch.abs(netD(real) - real))
        d_fake = torch.mean(torch.abs(netD(fake.detach()) - fake.detach()))
        d_loss = d_real - k * d_fake
        d_loss.backward()
        optD.step()
        diff = torch.mean(gamma * d_real - d_fake)
        k = k + lambda_k * diff.item()
        k = min(max(k, 0), 1)
    print(f"epoch {epoch}")
torch.save(netG.state_dict(), "g.pt")
