"""Reinforcement learning: the samples come from what the policy does."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
model = nn.Linear(4, 1)
optimizer = optim.SGD(model.parameters(), lr=0.05)
for episode in range(2):
    rewards, logs = [], []
    for step in range(5):
        distribution = torch.distributions.Bernoulli(logits=model(torch.randn(4)))
        action = distribution.sample()
        logs.append(distribution.log_prob(action))
        rewards.append(action.item())
    loss = -sum(log * reward for log, reward in zip(logs, rewards))
    optimizer.zero_grad()
    loss.backward()  # refused: does not come from a loop over a torch.utils.data.DataLoader
    optimizer.step()
