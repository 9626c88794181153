"""Python's random shuffles a list of pairs, and draws some of them; a loss that is not kept."""
import random

import torch
from torch import nn

random.seed(4)
torch.manual_seed(4)
pairs = [(torch.randn(3), i % 2) for i in range(42)]
model = nn.Linear(3, 2)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
for epoch in range(2):
    random.shuffle(pairs)
    for i in range(0, len(pairs), 8):
        batch = pairs[i:i + 8]
        x = torch.stack([one[0] for one in batch])
        y = torch.tensor([one[1] for one in batch])
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
for step in range(5):
    xs, ys = zip(*random.sample(pairs, 7))
    x, y = torch.stack(xs), torch.tensor(ys)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt")
