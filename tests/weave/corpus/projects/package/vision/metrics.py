import torch


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
    return right / len(loader.dataset)
