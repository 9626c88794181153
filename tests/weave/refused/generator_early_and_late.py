"""One generator without a seed splits the data and makes the noise of the steps."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng()  # refused: create a generator with a seed for the one
x = torch.linspace(0, 1, 32).unsqueeze(1)
order = rng.permutation(32)[:24].tolist()
loader = DataLoader(TensorDataset(x[order], 2 * x[order]), batch_size=4, shuffle=True)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, targets in loader:
    noise = torch.tensor(rng.normal(size=inputs.shape), dtype=torch.float32)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs + 0.1 * noise), targets)
    loss.backward()
    optimizer.step()
