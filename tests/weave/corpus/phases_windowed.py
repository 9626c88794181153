"""Losses shown every few batches, as in a well-known tutorial, and a progress of its own."""
# not equal: dropout
import torch
import torch.nn.functional as F
from functools import partial
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
data = torch.randn(90, 6)
target = (data[:, 0] * data[:, 1] > 0).float()
make_loader = partial(DataLoader, batch_size=6)
trainloader = make_loader(TensorDataset(data[:72], target[:72]), shuffle=True)
testloader = make_loader(TensorDataset(data[72:], target[72:]))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(6, 20)
        self.lin2 = nn.Linear(20, 1)
        self.dropout = nn.Dropout(p=0.2)

    def forward(self, x):
        return self.lin2(self.dropout(F.relu(self.lin1(x)))).squeeze(1)


net = Classifier()
options = dict(lr=0.05, weight_decay=1e-4)
optimizer = torch.optim.SGD(net.parameters(), **options)

for epoch in range(2):
    running_loss = 0.0
    for i, (inputs, labels) in enumerate(trainloader, 0):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(net(inputs), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if i % 3 == 2:    # print every 3 mini-batches
            print(f'[{epoch + 1}, {i + 1:5d}] loss: {running_loss / 3:.3f}')
            running_loss = 0.0

net.eval()
correct = 0
with torch.no_grad():
    for inputs, labels in testloader:
        correct += ((net(inputs) > 0) == labels.bool()).sum().item()
print('Accuracy: %d %%' % (100 * correct // 18))
with open('accuracy.txt', 'w') as f:
    print(correct, file=f)
