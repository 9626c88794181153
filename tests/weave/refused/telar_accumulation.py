"""For telar: gradients of several batches are summed."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
optimizer = optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for i, (inputs, labels) in enumerate(loader):
    loss = criterion(model(inputs), labels) / 2
    loss.backward()
    if i % 2 == 1:
        optimizer.step()  # refused: gradient accumulation
        optimizer.zero_grad()
