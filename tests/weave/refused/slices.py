"""Batches are slices of one sequence, whose steps a recurrent layer reads."""
import torch
from torch import nn

wave = torch.sin(torch.arange(60) / 3).unsqueeze(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        hidden, _ = self.rnn(x)
        return self.out(hidden)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for i in range(0, 50, 10):
    x, y = wave[i:i + 10], wave[i + 1:i + 11]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()  # refused: model(x): weave cannot tell that each sample counts by itself
    optimizer.step()
