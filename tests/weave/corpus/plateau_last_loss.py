"""ReduceLROnPlateau by the loss of the last batch, which is printed."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.05)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0, factor=0.5)
for epoch in range(4):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        opt.step()
    scheduler.step(loss)
    print(f"epoch {epoch} loss {loss.item():.4f}")
