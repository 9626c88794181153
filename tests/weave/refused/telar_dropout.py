"""For telar: the accuracy of training outputs, with dropout."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = optim.SGD(model.parameters(), lr=0.1)
right = 0
for inputs, labels in loader:
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = nn.functional.cross_entropy(outputs, labels)
    loss.backward()
    optimizer.step()
    right += (outputs.argmax(1) == labels).sum().item()  # refused: with dropout or batch norm Telar does not give them
