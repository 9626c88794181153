"""All samples at once, a step in a function: classes, a penalty, clipping, a schedule, and the best model by the loss."""
import torch
import torch.nn.functional as F
from torch import nn, optim
import telar.torch as tt


# How Telar trains: a strategy and its options.
TELAR = {"strategy": "mirrored", "replicas": 2}


def step_of(model, loss, optimizer, **options):
    """Telar's step of an optimizer, which keeps it from one call to the next."""
    if not hasattr(optimizer, "telar_step"):
        optimizer.telar_step = tt.Step(model, loss, optimizer, **options, **TELAR)
    optimizer.telar_step.loss = loss
    return optimizer.telar_step


def sync_step(optimizer):
    """Writes the values that Telar has trained into the module and the optimizer."""
    if hasattr(optimizer, "telar_step"):
        optimizer.telar_step.sync()


class Classifier(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.second = nn.Linear(hidden, classes)

    def forward(self, x):
        x = self.first(x)
        x = torch.relu(self.norm(x))
        return F.log_softmax(self.second(x), dim=1)


torch.manual_seed(11)
features = torch.randn(90, 6)
labels = (features[:, 0] + features[:, 1] > 0).long() + (features[:, 2] > 1).long()
train_x, train_y = features[:67], labels[:67]
test_x, test_y = features[67:], labels[67:]
net = Classifier(6, 12, 3)
optimizer = optim.Adam(net.parameters(), lr=0.02)
scheduler = optim.lr_scheduler.StepLR(optimizer, 8, gamma=0.5)


def train():
    net.train()

    def loss_of_batch(net, train_x, train_y):
        output = net(train_x)
        loss = F.nll_loss(output, train_y)
        loss = loss + 0.001 * sum(p.pow(2).sum() for p in net.parameters())
        return loss

    step = step_of(net, loss_of_batch, optimizer, clip_norm=1.0)
    loss = torch.tensor(step(train_x, train_y))
    return loss.item()


def test():
    net.eval()
    with torch.no_grad():
        output = net(test_x)
        return (output.argmax(1) == test_y).float().mean().item()


best = float("inf")
for epoch in range(1, 13):
    loss = train()
    scheduler.step()
    sync_step(optimizer)
    print(f"epoch {epoch}: loss {loss:.4f}, accuracy {test():.3f}, rate {scheduler.get_last_lr()[0]:.4f}")
    if loss < best:
        best = loss
        sync_step(optimizer)
        torch.save(net.state_dict(), "best.pt")
sync_step(optimizer)
