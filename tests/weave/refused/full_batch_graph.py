"""All nodes of a graph at once: its layers mix the rows."""
import torch
import torch.nn.functional as F
from torch import nn


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x, adjacency):
        x = torch.relu(adjacency @ self.first(x))
        return F.log_softmax(adjacency @ self.second(x), dim=1)


torch.manual_seed(1)
features, labels = torch.randn(20, 5), torch.randint(0, 3, (20,))
adjacency = (torch.rand(20, 20) > 0.7).float()
model = GraphNet()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(5):
    optimizer.zero_grad()
    loss = F.nll_loss(model(features, adjacency), labels)
    loss.backward()  # refused: model(features, adjacency): weave cannot tell that each sample counts by itself
    optimizer.step()
