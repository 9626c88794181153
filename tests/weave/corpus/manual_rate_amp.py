"""A step schedule by hand, autocast, a GradScaler, and functions that know nothing of each other."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LR = 0.1
use_cuda = torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")


def adjust_learning_rate(optimizer, epoch):
    lr = LR * (0.5 ** (epoch // 1))
    for group in optimizer.param_groups:
        group["lr"] = lr


def get_data():
    torch.manual_seed(9)
    x = torch.randn(60, 3)
    return TensorDataset(x, x.sum(1, keepdim=True))


def train_one_epoch(net, batches, optimizer, scaler):
    net.train()
    total = torch.zeros(1)
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.amp.autocast(enabled=use_cuda):
            loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.detach().cpu()
    return total / len(batches)


def main():
    # not equal: the learning rate is set anew in each epoch
    batches = DataLoader(get_data(), batch_size=6, shuffle=True)
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), LR)
    scaler = torch.cuda.amp.GradScaler(enabled=use_cuda)
    for epoch in range(3):
        adjust_learning_rate(optimizer, epoch)
        mean = train_one_epoch(net, batches, optimizer, scaler)
        print("epoch", epoch, "loss", round(mean.item(), 4))
    torch.save(net.state_dict(), "net.pt")


if __name__ == "__main__":
    main()
