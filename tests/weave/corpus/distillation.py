"""A teacher that is not trained, a student that is; a getattr optimizer; tqdm where it is installed."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
config = {"optimizer": "SGD", "lr": 0.1}
teacher = nn.Linear(4, 3)
teacher.eval()
for parameter in teacher.parameters():
    parameter.requires_grad_(False)
student = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
optimizer = getattr(torch.optim, config["optimizer"])(student.parameters(), lr=config["lr"])
loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=5, shuffle=True)
for epoch in range(2):
    total = 0.0
    for (inputs,) in loader:
        with torch.no_grad():
            soft = F.softmax(teacher(inputs), dim=1)
        loss = F.kl_div(F.log_softmax(student(inputs), dim=1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss.item()
    total /= len(loader)
    print("epoch {} loss {:.5f}".format(epoch, total))
torch.save(student, "student.pt")
