"""For telar: gradients are never set to zero."""
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
for inputs, labels in loader:
    loss = criterion(model(inputs), labels)
    loss.backward()  # refused: zero_grad() is not called in the loop
    optimizer.step()
