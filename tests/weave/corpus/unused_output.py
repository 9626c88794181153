"""The training ignores an output of the model, and so the layer that computes it."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 2)
        self.decoder = nn.Linear(2, 4)
        self.classifier = nn.Linear(2, 1)
    def forward(self, x):
        z = self.encoder(x)
        return self.decoder(z), self.classifier(z)

torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = AutoEncoder()
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    total = 0.0
    for a, b in loader:
        opt.zero_grad()
        rebuilt, _ = model(a)
        loss = nn.functional.mse_loss(rebuilt, a)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f}")
