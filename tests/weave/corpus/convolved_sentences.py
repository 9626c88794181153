"""All sentences at once: convolutions of several widths in a ModuleList, and a loop over cells."""
import torch
import torch.nn as nn
import torch.nn.functional as F

widths = [2, 3]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.convolutions = nn.ModuleList([nn.Conv2d(1, 4, (width, 8)) for width in widths])
        self.cell = nn.LSTMCell(8, 5)
        self.out = nn.Linear(13, 2)

    def forward(self, x):
        x = self.embed(x)
        pooled = []
        for i, convolution in enumerate(self.convolutions):
            shrink = nn.MaxPool2d((7 - widths[i], 1))
            pooled.append(shrink(F.relu(convolution(x.unsqueeze(1)))).permute(0, 3, 2, 1))
        h = torch.zeros(x.size(0), 5)
        c = torch.zeros(x.size(0), 5)
        for part in x.split(1, dim=1):
            h, c = self.cell(part.squeeze(1), (h, c))
        joined = torch.cat([torch.cat(pooled, 3).view(x.size(0), -1), h], dim=1)
        return self.out(joined)


torch.manual_seed(2)
tokens = torch.randint(0, 20, (9, 6))
labels = (tokens[:, 0] > 9).long()
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    loss = F.cross_entropy(net(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
