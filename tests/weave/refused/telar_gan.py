"""For telar: two optimizers in one loop, as a GAN has."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
first, second = nn.Linear(4, 4), nn.Linear(4, 2)
optimizer_a = optim.SGD(first.parameters(), lr=0.1)
optimizer_b = optim.SGD(second.parameters(), lr=0.1)
for inputs, labels in loader:
    optimizer_a.zero_grad()
    optimizer_b.zero_grad()
    loss = nn.functional.cross_entropy(second(first(inputs)), labels)
    loss.backward()
    optimizer_a.step()
    optimizer_b.step()  # refused: several optimizers, such as those of a GAN
