"""The last states of both directions are put one after another by view(), which mixes the samples."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, 4, bidirectional=True), nn.Linear(8, 2)

    def forward(self, x):
        x = x.permute(1, 0, 2)
        steps, (last, _) = self.lstm(x)
        return self.out(last.view(-1, 8))


torch.manual_seed(1)
x = torch.randn(6, 5, 3)
y = torch.tensor([0, 1, 0, 1, 1, 0])
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()  # refused: model(x): weave cannot tell that each sample counts by itself
    optimizer.step()
