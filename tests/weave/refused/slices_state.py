"""Batches are drawn at random, but a state goes on from one to the next."""
import torch
from torch import nn

torch.manual_seed(1)
rows = torch.randn(40, 5, 3)
targets = rows.sum((1, 2))
rnn = nn.GRU(3, 8, batch_first=True)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.05)
state = torch.zeros(1, 8, 8)
for step in range(5):
    chosen = torch.randint(0, 40, (8,))
    x, y = rows[chosen], targets[chosen]
    out, state = rnn(x, state)
    state = state.detach()
    loss = nn.functional.mse_loss(out[:, -1].mean(1), y)
    optimizer.zero_grad()
    loss.backward()  # refused: weave cannot tell that each sample counts by itself
    optimizer.step()
