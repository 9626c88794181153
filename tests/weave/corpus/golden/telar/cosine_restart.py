"""A convolutional network with CosineAnnealingLR, a checkpoint each epoch that a second part resumes from."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}

torch.manual_seed(5)


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))


class Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.layers = nn.Sequential(block(1, 3), block(3, 4))
        self.classifier = nn.Linear(4 * 2 * 2, classes)

    def forward(self, x):
        return self.classifier(self.layers(x).flatten(1))


def save(path, epoch, model, optimizer, scheduler):
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict()}, path)


x = torch.randn(24, 1, 8, 8)
y = torch.arange(24) % 3
loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)
net = Net()
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
step = tt.Step(net, criterion, optimizer, **TELAR)
for epoch in range(3):
    net.train()
    for images, labels in loader:
        step(images, labels)
    step.sync()
    scheduler.step()
    save("checkpoint.pt", epoch, net, optimizer, scheduler)
checkpoint = torch.load("checkpoint.pt")
net.load_state_dict(checkpoint["model"])
print("epoch", checkpoint["epoch"], "rate %.5f" % scheduler.get_last_lr()[0] if False else "")
