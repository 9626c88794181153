"""A random permutation is cut into batches; accuracy, and an end when the mean loss is small."""
import torch
from torch import nn

torch.manual_seed(3)
X = torch.randn(73, 4)
Y = (X.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
batch_size = 12
for epoch in range(6):
    permutation = torch.randperm(X.size(0))
    total, right = 0.0, 0
    for i in range(0, X.size(0), batch_size):  # the last batch has one sample
        indices = permutation[i:i + batch_size]
        batch_x, batch_y = X[indices], Y[indices]
        output = model(batch_x)
        loss = criterion(output, batch_y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch_x)
        right += (output.argmax(1) == batch_y).sum().item()
    print(f"epoch {epoch}: loss {total / 73:.4f}, accuracy {right / 73:.3f}")
    if total / 73 < 0.4:
        break
