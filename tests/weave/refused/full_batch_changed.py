"""All samples at once, which a function draws anew for each step."""
import torch
from torch import nn

torch.manual_seed(1)
x = y = torch.zeros(20, 3)


def draw():
    global x, y
    x = torch.rand(20, 3)
    y = x.pow(2)


model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    draw()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # refused: does not come from a loop over a torch.utils.data.DataLoader
    optimizer.step()
