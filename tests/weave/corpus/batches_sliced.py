"""Batches are slices of tensors in their order; losses of every few batches are shown."""
import torch
from torch import nn

torch.manual_seed(5)
x_train = torch.randn(53, 6)
y_train = x_train[:, :2].prod(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
bs = 10
n = x_train.shape[0]
for epoch in range(3):
    running = 0.0
    for i in range((n - 1) // bs + 1):
        start_i = i * bs
        end_i = start_i + bs
        xb = x_train[start_i:end_i]
        yb = y_train[start_i:end_i]
        pred = model(xb)
        loss = nn.functional.mse_loss(pred, yb)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        running += loss.item()
        if i % 3 == 2:
            print(f"{epoch} {i}: {running / 3:.4f}, largest {pred.max().item():.3f}")
            running = 0.0
