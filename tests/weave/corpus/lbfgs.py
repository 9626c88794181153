"""LBFGS with a closure."""
import torch
from torch.utils.data import DataLoader, TensorDataset

# not for horovod: LBFGS
torch.manual_seed(1)
x = torch.rand(64, 2)
y = x @ torch.tensor([[2.0], [-1.0]]) + 0.3
loader = DataLoader(TensorDataset(x, y), batch_size=16)
model = torch.nn.Linear(2, 1)
loss_fn = torch.nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

for epoch in range(2):
    for inputs, targets in loader:
        def closure():
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            return loss
        optimizer.step(closure)
    with torch.no_grad():
        print(f'{epoch}: {loss_fn(model(x), y).item():.3e}')  # other output: too near to zero to compare
