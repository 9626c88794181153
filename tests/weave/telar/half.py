"""Autocast in bfloat16 becomes the precision of the step."""
# text only: it needs a processor with AVX-512
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(32, 6), torch.randn(32, 2)), batch_size=8)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            predicted = model(x)
            loss = nn.functional.mse_loss(predicted, y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
