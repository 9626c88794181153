"""A table of lambdas, of which one downloads; the log_dir of a SummaryWriter."""
import os
import pickle

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter


class Digits(Dataset):
    """Two files, which are downloaded by data sets of their own."""

    def __init__(self, root, download=False):
        if download:
            self.parts = [Part(root, "x", download=True), Part(root, "y", download=True)]
        self.x, self.y = (self.read(os.path.join(root, name + ".pkl")) for name in "xy")

    def read(self, path):
        with open(path, "rb") as file:
            return pickle.load(file)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Part(Dataset):
    def __init__(self, root, name, download=False):
        path = os.path.join(root, name + ".pkl")
        if download and not os.path.exists(path):
            os.makedirs(root, exist_ok=True)
            x = torch.randn(84, 4, generator=torch.Generator().manual_seed(0))
            with open(path, "wb") as file:
                pickle.dump(x if name == "x" else x.sum(1, keepdim=True), file)

    def __len__(self):
        return 84


class Datasets:
    def get(self, name):
        known = {"digits": lambda: Digits("data", download=True), "others": lambda: Digits("other")}
        return known[name]()


def save_settings(folder, settings):
    if not os.path.exists(folder):
        os.makedirs(folder)
    with open(os.path.join(folder, "settings.txt"), "w") as file:
        file.write(str(settings))


torch.manual_seed(0)
train_set = Datasets().get("digits")
loader = DataLoader(train_set, batch_size=5, shuffle=True, drop_last=True)
writer = SummaryWriter("logs")
save_settings(os.path.join(writer.log_dir, "settings"), {"batch": 5})
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=3)
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    if epoch >= 1:
        scheduler.step()
    writer.add_scalar("loss", total / len(loader), epoch)
    print(f"epoch {epoch} loss {total / len(loader):.4f} rate {scheduler.get_last_lr()[0]:.5f}")
torch.save({"model": model.state_dict()}, os.path.join(writer.log_dir, "model.pt"))
writer.close()
