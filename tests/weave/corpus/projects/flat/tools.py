import torch


def plain_sum(values):
    return sum(values)


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)
