"""A function makes an archive and unpacks it before the training."""
import os, tarfile, io
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

def download_and_extract(root):
    os.makedirs(root, exist_ok=True)
    archive = os.path.join(root, "a.tar")
    if not os.path.exists(archive):
        buffer = io.BytesIO()
        g = torch.Generator().manual_seed(0)
        torch.save(torch.randn(60, 4, generator=g), buffer)
        data = buffer.getvalue()
        with tarfile.open(archive, "w") as tar:
            info = tarfile.TarInfo("x.pt")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with tarfile.open(archive) as tar:
        tar.extractall(root)
    return torch.load(os.path.join(root, "x.pt"))

torch.manual_seed(0)
x = download_and_extract("data")
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
