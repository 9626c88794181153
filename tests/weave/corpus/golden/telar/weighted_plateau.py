"""WeightedRandomSampler and ReduceLROnPlateau."""
# not equal: each process draws its own weighted samples
from torch.utils.data import WeightedRandomSampler, DataLoader, TensorDataset
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.nn import Linear, Sequential, ReLU, CrossEntropyLoss
from torch.optim import Adam
import torch, json, os
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}

torch.manual_seed(4)
x = torch.randn(80, 4)
y = (x[:, 0] > 0.8).long()
weights = torch.where(y == 1, 4.0, 1.0)
sampler = WeightedRandomSampler(weights, num_samples=80, replacement=True)
loader = DataLoader(TensorDataset(x, y), batch_size=8, sampler=sampler)
model = Sequential(Linear(4, 8), ReLU(), Linear(8, 2))
opt = Adam(model.parameters(), 1e-2)
scheduler = ReduceLROnPlateau(opt, patience=1, min_lr=1e-5)
criterion = CrossEntropyLoss()
history = []
if not os.path.exists("runs"):
    os.makedirs("runs")
epoch = 0
step = tt.Step(model, criterion, opt, **TELAR)
while epoch < 3:
    loss_sum = 0.
    for xb, yb in loader:
        loss = torch.tensor(step(xb, yb))
        loss_sum = loss_sum + loss.item()
    step.sync()
    scheduler.step(loss_sum / len(loader))
    history.append({"epoch": epoch, "loss": loss_sum / len(loader)})
    epoch += 1
with open(os.path.join("runs", "history.json"), "w") as f:
    json.dump(history, f)
