"""Batches that are cut by hand, in an order drawn anew; the accuracy in the training loop; no DataLoader."""
import numpy as np
import torch
from torch import nn
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}

np.random.seed(0)
torch.manual_seed(0)
data = np.random.randn(48, 3).astype("float32")
targets = (data.sum(axis=1) > 0).astype("int64")
model = nn.Linear(3, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
step = tt.Step(model, criterion, optimizer, **TELAR)
for epoch in range(3):
    order = np.random.permutation(48)
    right = 0
    for begin in range(0, 48, 12):
        rows = order[begin:begin + 12]
        labels = torch.from_numpy(targets[rows])
        step_batch = (torch.from_numpy(data[rows]), labels)
        logits = step.outputs(*step_batch)
        loss = torch.tensor(step(*step_batch))
        right += int((logits.argmax(1) == labels).sum())
    step.sync()
    print("epoch", epoch, "right", right, "loss", loss)
