"""A small classifier, the way a first tutorial writes it."""
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

# Two noisy blobs.
x = torch.randn(200, 8)
y = (x.sum(dim=1) > 0).long()
train_set = TensorDataset(x, y)
train_loader = DataLoader(train_set, batch_size=10, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


model = Net().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

step = tt.Step(model, criterion, optimizer, **TELAR)
for epoch in range(4):
    running_loss = 0.0
    correct = 0
    total = 0
    for inputs, labels in train_loader:
        inputs, labels = inputs.to(device), labels.to(device)
        outputs = step.outputs(inputs, labels)
        loss = torch.tensor(step(inputs, labels))
        running_loss += loss.item()
        correct += (outputs.argmax(dim=1) == labels).sum().item()
        total += labels.size(0)
    step.sync()
    print(f"epoch {epoch}: loss {running_loss / len(train_loader):.4f}")
    print(f"          accuracy {100 * correct / total:.1f} %")

torch.save(model.state_dict(), "model.pt")
print("saved")
