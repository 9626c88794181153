"""An evaluation and a checkpoint between the steps, under conditions; weights that the loop clamps; a return in the loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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
    for epoch in range(3):
        hits = 0
        for i, (inputs, labels) in enumerate(train_loader):
            if i == 2:
                print("before", evaluate(model))
            elif i == 7 and evaluate(model) > 2:
                print("never")
            outputs = model(inputs)
            probabilities = outputs.softmax(1)
            loss = criterion(outputs, labels) + 0.01 * (probabilities ** 2).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            hits += (probabilities.argmax(1) == labels).sum().item()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.data.clamp_(-0.6, 0.6)
            if i == 3:
                accuracy = evaluate(model)
                if accuracy > best:
                    best = accuracy
                    torch.save(model.state_dict(), "best.pt")
            if epoch == 2 and i == 4:
                return best
        print(f"epoch {epoch} loss {loss:.4f} hits {hits}")
    return best


net = Net()
print(train(net, torch.optim.RMSprop(net.parameters(), lr=0.01), nn.CrossEntropyLoss()))
torch.save(net.state_dict(), "last.pt")
