"""For telar: a weight of the loss follows the epoch."""
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


def train(beta):
    for inputs, labels in loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels) + beta * outputs.pow(2).mean()  # refused: 'beta', which changes
        loss.backward()
        optimizer.step()


for epoch in range(3):
    train(0.1 * epoch)
