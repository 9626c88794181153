"""All samples at once; the predictions of the step are used once more, for the accuracy in an f-string."""
import torch
from torch import nn

torch.manual_seed(1)
x = torch.randn(21, 5)
y = (x[:, :1] > 0).float()
model = nn.Sequential(nn.Linear(5, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"accuracy {(output.round() == y).float().mean().item():.2f}")
