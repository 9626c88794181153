"""All samples at once, in a mean that is weighted by class: it is no mean of the processes' means."""
import torch
from torch import nn

torch.manual_seed(1)
x, y = torch.randn(20, 5), torch.randint(0, 3, (20,))
model = nn.Linear(5, 3)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()  # refused: criterion(model(x), y): weave cannot tell
    optimizer.step()
