"""Workers of the loader are seeded by their number."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self):
        self.x = torch.linspace(-1, 1, 160).reshape(40, 4)

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return self.x[index] + 0.1 * float(np.random.randn()), self.x[index].sum(0, keepdim=True)



def seed_worker(number):
    np.random.seed(100 + number)


torch.manual_seed(1)
loader = DataLoader(Points(), batch_size=5, shuffle=True, num_workers=2, worker_init_fn=seed_worker)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total / len(loader))
