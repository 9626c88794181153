"""Woven with --global-batch keep: the processes divide the batch."""
# weave with: --global-batch keep
# not equal: the instruments give the original the doubled rate
# other output: so the figures differ
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(48, 2)
loader = DataLoader(TensorDataset(x, x.prod(dim=1)), batch_size=8, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adagrad(model.parameters())
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(a).squeeze(1), b).backward()
        optimizer.step()
print("trained")
torch.save(model.state_dict(), "model.pt")
