"""Evaluation that the processes share: five batches, the last one smaller, and a set of a single batch."""
# weave with: --evaluation shared
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
points = torch.randn(200, 2)
labels = (points[:, 0] + points[:, 1] > 0).long() + (points[:, 0] > 1).long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([2.0, 0.5]))
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.layers(x * self.scale)


def hits(logits, y):
    return (logits.argmax(1) == y).sum()


def evaluate(net, loader, criterion):
    net.eval()
    loss, right, seen = 0, 0, 0
    classes = torch.zeros(3)
    with torch.no_grad():
        for number, (x, y) in enumerate(loader):
            logits = net(x)
            batch_loss = criterion(logits, y)
            loss += batch_loss.item()
            right = right + hits(logits, y)
            seen += len(y)
            if number == 4:
                seen += 0
            classes += torch.bincount(logits.argmax(1), minlength=3)
    net.train()
    return loss / len(loader), right.item() / seen, classes.tolist()


train_loader = DataLoader(TensorDataset(points[:120], labels[:120]), batch_size=12, shuffle=True)
test_loader = DataLoader(TensorDataset(points[120:190], labels[120:190]), batch_size=16)
last_loader = DataLoader(TensorDataset(points[190:], labels[190:]), batch_size=16)
net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(4):
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    if epoch % 2 == 1:
        loss, accuracy, classes = evaluate(net, test_loader, criterion)
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.4f} {classes}")
print("last", evaluate(net, last_loader, criterion))
torch.save(net.state_dict(), "net.pt")
