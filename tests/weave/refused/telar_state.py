"""For telar: a state passes from one batch to the next."""
# weave with: --target telar
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(40, 4)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, inputs, state):
        output = self.layer(torch.cat([inputs, state.expand(len(inputs), 1)], 1))
        return output[:, :2], output[:, 2:].mean(0, keepdim=True)


model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
state = torch.zeros(1, 1)
for inputs, labels in loader:
    state = state.detach()  # refused: 'state' passes from one step to the next
    output, state = model(inputs, state)
    loss = nn.functional.cross_entropy(output, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
