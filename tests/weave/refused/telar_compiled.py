"""For telar: torch.compile."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
model = torch.compile(model)  # refused: Telar compiles the step itself
optimizer = optim.SGD(model.parameters(), lr=0.1)
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
