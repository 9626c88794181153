"""A batch is looked at by next(iter(loader)), for shapes and for fixed samples, before the training."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)

images, labels = next(iter(loader))
print(images.shape, labels.shape)
dataiter = iter(loader)
images, labels = next(dataiter)
model = nn.Linear(images.shape[1], labels.shape[1])
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f}")
