"""For telar: autocast in float16."""
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
    with torch.autocast("cuda"):  # refused: autocast needs dtype=torch.bfloat16
        loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
