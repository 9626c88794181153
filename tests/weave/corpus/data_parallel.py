"""Written for nn.DataParallel and CUDA: device by hand, .cuda(), map_location, module in the saved file."""
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

use_cuda = torch.cuda.is_available()
device = torch.device("cuda:0" if use_cuda else "cpu")
torch.manual_seed(9)
x = torch.randn(32, 3, 8, 8)
y = (x.mean(dim=(1, 2, 3)) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True, pin_memory=use_cuda)


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean(dim=(2, 3)))


model = Conv().to(device)
if torch.cuda.device_count() > 1:
    print("several GPUs")
    model = nn.DataParallel(model)
if use_cuda:
    model = model.cuda()
criterion = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, betas=(0.9, 0.99))
if os.path.exists("last.pt"):
    state = torch.load("last.pt", map_location=device)
    model.load_state_dict(state)
for epoch in range(2):
    correct = 0
    for data, target in loader:
        data, target = data.to(device, non_blocking=True), target.to(device)
        output = model(data)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (output.argmax(1) == target).sum().item()
    print("epoch %d accuracy %.3f" % (epoch, correct / len(loader.dataset)))
    torch.save(model.state_dict(), "last.pt")
