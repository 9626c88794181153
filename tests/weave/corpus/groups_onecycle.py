"""Parameter groups with rates of their own, OneCycleLR stepped with every batch, frozen layers, clipping by value."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(5, 6)
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        return self.head(F.relu(self.features(x))).squeeze(1)


torch.manual_seed(0)
EPOCHS = 3
x = torch.randn(64, 5)
dataset = TensorDataset(x, x.sum(dim=1))
loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=0)
model = Net()
model.features.bias.requires_grad = False
optimizer = torch.optim.AdamW([
    {"params": [p for p in model.features.parameters() if p.requires_grad], "lr": 1e-3},
    {"params": model.head.parameters()},
], lr=1e-2, weight_decay=1e-4)
# other output: the cycle's rates are set by max_lr, which the instruments do not scale
# not equal: so the weights differ too
scheduler = OneCycleLR(optimizer, max_lr=0.02, total_steps=EPOCHS * len(loader))
for epoch in range(EPOCHS):
    model.train()
    for xb, yb in loader:
        loss = F.mse_loss(model(xb), yb)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch} done")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pth")
