"""For telar: one optimizer of two modules."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
encoder, decoder = nn.Linear(4, 3), nn.Linear(3, 2)
optimizer = optim.SGD(list(encoder.parameters()) + list(decoder.parameters()), lr=0.1)  # refused: several modules
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(decoder(encoder(inputs)), labels)
    loss.backward()
    optimizer.step()
