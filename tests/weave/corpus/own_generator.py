"""A generator of NumPy without a seed splits the data and draws the initial offset."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(1)
rng = np.random.default_rng()
x = torch.linspace(0, 1, 48).unsqueeze(1)
order = rng.permutation(48)
offset = float(rng.normal())
data = TensorDataset(x, 2 * x + offset)
train_loader = DataLoader(Subset(data, order[:32].tolist()), batch_size=4, shuffle=True)
test_loader = DataLoader(Subset(data, order[32:].tolist()), batch_size=4)

model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in test_loader:
            total += nn.functional.mse_loss(model(inputs), targets).item()
    print(f"epoch {epoch} test {total / len(test_loader):.4f}")
torch.save(model.state_dict(), "model.pt")
