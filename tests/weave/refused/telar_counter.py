"""For telar: the loss uses the number of the batch."""
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
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels) * 0.9 ** i  # refused: a number that counts the steps
    loss.backward()
    optimizer.step()
