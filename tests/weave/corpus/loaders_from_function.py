"""A function returns a dictionary of loaders, for the phases of a loop."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split

def get_loaders(batch_size):
    x = torch.randn(60, 4)
    whole = TensorDataset(x, x.sum(1, keepdim=True))
    train, val = random_split(whole, [50, 10])
    return {"train": DataLoader(train, batch_size=batch_size, shuffle=True),
            "val": DataLoader(val, batch_size=batch_size)}

torch.manual_seed(0)
dataloaders = get_loaders(5)
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for phase in ["train", "val"]:
        model.train(phase == "train")
        running = 0.0
        for a, b in dataloaders[phase]:
            opt.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.mse_loss(model(a), b)
                if phase == "train":
                    loss.backward()
                    opt.step()
            running += loss.item() * a.size(0)
        print(f"epoch {epoch} {phase} loss {running / len(dataloaders[phase].dataset):.4f}")
