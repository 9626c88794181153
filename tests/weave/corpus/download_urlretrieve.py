"""urlretrieve in `if not os.path.exists`, an archive, a file that is written and read."""
import os, zipfile, pathlib, urllib.request
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

here = pathlib.Path("source.bin").absolute()
if not here.exists():
    here.write_bytes(bytes(range(240)))
URL = here.as_uri()
if not os.path.exists("data.bin"):
    urllib.request.urlretrieve(URL, "data.bin")
with zipfile.ZipFile("data.zip", "w") as archive:
    archive.write("data.bin")
with zipfile.ZipFile("data.zip") as archive:
    archive.extractall("data")
raw = open("data/data.bin", "rb").read()
x = torch.tensor(list(raw), dtype=torch.float32).view(60, 4) / 255
torch.manual_seed(0)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
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
