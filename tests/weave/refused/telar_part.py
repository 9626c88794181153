"""For telar: a part of the loss is shown, from two outputs of the model."""
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
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs):
        hidden = self.layer(inputs)
        return hidden, hidden.pow(2)


model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for inputs, labels in loader:
    output, squares = model(inputs)
    penalty = squares.mean()
    loss = nn.functional.cross_entropy(output, labels) + penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(penalty.item())  # refused: used for more than the loss
