"""Text in columns, with a hidden state whose size does not follow the number of columns."""
import torch
from torch import nn

text = (torch.arange(800) % 11).view(8, -1).t().contiguous()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(11, 6), nn.GRU(6, 6), nn.Linear(6, 11)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.embed(x), hidden)
        return self.out(output).view(-1, 11), hidden


model = Net()
state = torch.zeros(1, 4 + 4, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for i in range(0, text.size(0) - 1, 7):
    data, targets = text[i:i + 7], text[i + 1:i + 8].view(-1)
    optimizer.zero_grad()
    output, state = model(data, state.detach())
    loss = nn.functional.cross_entropy(output, targets)
    loss.backward()  # refused: a hidden state must begin before the loop with the number of columns
    optimizer.step()
