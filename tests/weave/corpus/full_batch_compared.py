"""All samples at once, for two networks in one loop; predictions and parts of the loss are shown."""
import torch
from torch import nn

torch.manual_seed(6)
x = torch.linspace(-1, 1, 31).unsqueeze(1)
y = x.pow(3) + 0.1 * torch.randn(31, 1)
plain = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 1))
dropped = nn.Sequential(nn.Linear(1, 20), nn.Dropout(0.3), nn.ReLU(), nn.Linear(20, 1))
plain_optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
dropped_optimizer = torch.optim.Adam(dropped.parameters(), lr=0.01)
mse, mae = nn.MSELoss(), nn.L1Loss()
for step in range(15):
    first = plain(x)
    second = dropped(x)
    squares = mse(first, y)
    absolute = mae(first, y)
    loss = squares + 0.1 * absolute
    other = mse(second, y)
    plain_optimizer.zero_grad()
    dropped_optimizer.zero_grad()
    loss.backward()
    other.backward()
    plain_optimizer.step()
    dropped_optimizer.step()
    if step % 5 == 0:
        print(step, loss.item(), squares.item(), absolute.item(), other.item(), first.detach().max().item())
