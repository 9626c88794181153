"""One sequence at once: its steps are no samples."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        hidden, _ = self.rnn(x)
        return self.out(hidden)


wave = torch.sin(torch.arange(50) / 3).unsqueeze(1)
before, after = wave[:-1], wave[1:]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    loss = nn.functional.mse_loss(model(before), after)
    optimizer.zero_grad()
    loss.backward()  # refused: model(before): weave cannot tell
    optimizer.step()
