"""nn.DataParallel: the keys with `module.` are saved, renamed and loaded into both kinds of models."""
# not for horovod: nn.DataParallel of a model that is not trained
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
model = nn.DataParallel(model)
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
    torch.save(model.state_dict(), "model.pt")
test = nn.Linear(4, 1)
state = torch.load("model.pt")
test.load_state_dict({k.replace("module.", ""): v for k, v in state.items()})
again = nn.DataParallel(nn.Linear(4, 1))
again.load_state_dict(state)
print(f"{test.weight.sum().item():.4f} {again.module.weight.sum().item():.4f}")
