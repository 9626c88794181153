"""A generator yields batches of arrays in an order that it shuffles; the last one is smaller."""
import numpy as np
import torch
from torch import nn, optim


def batches(inputs, targets, size, shuffle=True):
    order = np.arange(len(inputs))
    if shuffle:
        np.random.shuffle(order)
    for start in range(0, len(inputs), size):
        chosen = order[start:start + size]
        yield inputs[chosen], targets[chosen]


np.random.seed(2)
torch.manual_seed(2)
features = np.random.randn(61, 5).astype(np.float32)
labels = (features.sum(1) > 0).astype(np.int64)
net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 2))
optimizer = optim.Adam(net.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    losses = []
    hits = 0
    for inputs, targets in batches(features[:48], labels[:48], 10):
        inputs, targets = torch.from_numpy(inputs), torch.from_numpy(targets)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        hits += (outputs.argmax(dim=1) == targets).sum().item()
    print("epoch %d: loss %.4f, accuracy %.3f" % (epoch, np.mean(losses), hits / 48))
    with torch.no_grad():
        right = 0
        for inputs, targets in batches(features[48:], labels[48:], 5, shuffle=False):
            right += (net(torch.from_numpy(inputs)).argmax(1) == torch.from_numpy(targets)).sum().item()
        print("test %.3f" % (right / 13))
