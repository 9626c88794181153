"""Batch norm; the best checkpoint by a validation split."""
# not equal: batch norm takes the statistics of each process's own batch
import torch
import torch.nn as nn
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau
from torch.utils.data import TensorDataset, DataLoader, random_split

EPOCHS = 3
SEED = 7
torch.manual_seed(SEED)


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=1)
        self.bn = nn.BatchNorm2d(o)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(torch.relu(self.bn(self.conv(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(1, 4), nn.MaxPool2d(2), Block(4, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


def evaluate(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return hits / total


labels = torch.randint(0, 3, (150,))
images = torch.randn(150, 1, 8, 8) + labels.view(-1, 1, 1, 1)
train_set, test_set = random_split(TensorDataset(images, labels), [120, 30])
train_loader = DataLoader(train_set, batch_size=15, shuffle=True, drop_last=True)
test_loader = DataLoader(test_set, batch_size=7)
model = Net()
optimizer = SGD([{"params": model.body.parameters(), "lr": 0.01}, {"params": model.head.parameters()}], lr=0.05)
scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=EPOCHS * len(train_loader))
criterion = nn.CrossEntropyLoss()

best = 0.0
for epoch in range(EPOCHS):
    model.train()
    losses = []
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    accuracy = evaluate(model, test_loader)
    print(f"{epoch}: loss {sum(losses) / len(losses):.3f}, train {evaluate(model, train_loader):.3f}, test {accuracy:.3f}")
    if accuracy >= best:
        best = accuracy
        torch.save(model, "best.pth")
        torch.save(model.state_dict(), "best_state.pth")

model.load_state_dict(torch.load("best_state.pth"))
print("best:", evaluate(model, test_loader))
print("weights", model.head.weight.shape)
