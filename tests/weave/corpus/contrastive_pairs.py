"""Self-supervised pairs: the loss compares the samples of a batch with each other."""
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

class Pairs(Dataset):
    def __init__(self, x):
        self.x = x
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        v = self.x[i]
        return v + 0.1 * torch.randn_like(v), v + 0.1 * torch.randn_like(v)

def nt_xent(z1, z2, t=0.5):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / t
    n = z1.size(0)
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, target)

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(Pairs(x), batch_size=10, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    total = 0.0
    for v1, v2 in loader:
        loss = nt_xent(model(v1), model(v2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f}")
