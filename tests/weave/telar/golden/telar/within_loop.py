"""An evaluation and a checkpoint between the steps, under conditions; weights that the loop clamps; a return in the loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}

torch.manual_seed(3)
x = torch.randn(60, 4)
y = (x.sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x[:40], y[:40]), batch_size=5, shuffle=True)
test_loader = DataLoader(TensorDataset(x[40:], y[40:]), batch_size=10)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)


def evaluate(model):
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, labels in test_loader:
            right += (model(inputs).argmax(1) == labels).sum().item()
    model.train()
    return right / 20


def train(model, optimizer, criterion, limit=0.5):
    best = 0.0

    def loss_of_batch(model, inputs, labels):
        outputs = model(inputs)
        probabilities = outputs.softmax(1)
        loss = criterion(outputs, labels) + 0.01 * (probabilities ** 2).sum(1).mean()
        return loss

    step = tt.Step(model, loss_of_batch, optimizer, clip_norm=limit, **TELAR)
    for epoch in range(3):
        hits = 0
        step.load()
        for i, (inputs, labels) in enumerate(train_loader):
            step.sync()
            if i == 2:
                step.sync()
                print("before", evaluate(model))
            elif i == 7 and evaluate(model) > 2:
                print("never")
            outputs = step.outputs(inputs, labels)
            probabilities = outputs.softmax(1)
            loss = torch.tensor(step(inputs, labels))
            hits += (probabilities.argmax(1) == labels).sum().item()
            step.sync()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.data.clamp_(-0.6, 0.6)
            step.load()
            if i == 3:
                step.sync()
                accuracy = evaluate(model)
                if accuracy > best:
                    best = accuracy
                    step.sync()
                    torch.save(model.state_dict(), "best.pt")
            if epoch == 2 and i == 4:
                step.sync()
                return best
        step.sync()
        print(f"epoch {epoch} loss {loss:.4f} hits {hits}")
    return best


net = Net()
print(train(net, torch.optim.RMSprop(net.parameters(), lr=0.01), nn.CrossEntropyLoss()))
torch.save(net.state_dict(), "last.pt")
