"""Text in columns, of which each step takes the next rows (bptt)."""
import torch
from torch import nn

text = (torch.arange(800) % 11).view(8, -1).t().contiguous()
model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for epoch in range(2):
    for i in range(0, text.size(0) - 1, 7):
        length = min(7, len(text) - 1 - i)
        data, targets = text[i:i + length], text[i + 1:i + 1 + length].view(-1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data).view(-1, 11), targets)
        loss.backward()  # refused: text in columns: one stretch of text for each sample
        optimizer.step()
