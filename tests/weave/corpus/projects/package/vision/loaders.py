import torch
from torch.utils.data import DataLoader as Loader
from torch.utils.data import TensorDataset, random_split


def samples(count):
    x = torch.randn(count, 6)
    return TensorDataset(x, (x[:, :3].argmax(1)))


def loaders(batch):
    train, test = random_split(samples(90), [70, 20])
    return (
        Loader(train, batch_size=batch, shuffle=True),
        Loader(test, batch_size=batch),
    )
