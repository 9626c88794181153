"""For telar: whether a step is made depends on the loss."""
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
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    if loss > 0.1:
        loss.backward()  # refused: the loss is not computed from the model beside backward()
        optimizer.step()
