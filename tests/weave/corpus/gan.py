"""Two optimizers: a generator and a discriminator."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

# not equal: every process draws noise of its own
torch.manual_seed(3)
real = torch.randn(120, 2) * 0.3 + 1
loader = DataLoader(TensorDataset(real), batch_size=10, shuffle=True)
netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
netD = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
optD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()

for epoch in range(2):
    for i, (batch,) in enumerate(loader):
        n = batch.size(0)
        netD.zero_grad()
        loss_real = bce(netD(batch), torch.ones(n, 1))
        loss_real.backward()
        fake = netG(torch.randn(n, 4))
        loss_fake = bce(netD(fake.detach()), torch.zeros(n, 1))
        loss_fake.backward()
        optD.step()

        netG.zero_grad()
        loss_g = bce(netD(fake), torch.ones(n, 1))
        loss_g.backward()
        optG.step()
        if i % 4 == 0: print(epoch, i, (loss_real + loss_fake).item(), loss_g.item())

torch.save({'G': netG.state_dict(), 'D': netD.state_dict()}, 'gan.pth')
