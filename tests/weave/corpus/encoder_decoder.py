"""Two models under one optimizer (itertools.chain), a recurrent network, a collate function, no_grad as a decorator."""
import itertools
import random

import torch
from torch import nn, optim
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

random.seed(1)
torch.manual_seed(1)


class Sequences(Dataset):
    def __init__(self, count):
        self.items = [torch.randint(0, 9, (random.randint(3, 6),)) for _ in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        item = self.items[index]
        return item, item.sum().float()


def collate(batch):
    items, sums = zip(*batch)
    padded = pad_sequence(list(items), batch_first=True)
    return nn.functional.pad(padded, (0, 6 - padded.size(1))), torch.stack(sums)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.rnn = nn.GRU(4, 5, batch_first=True)

    def forward(self, x):
        return self.rnn(self.embed(x))[1][0]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 1)

    def forward(self, h):
        return self.out(h).squeeze(-1)


train_loader = DataLoader(Sequences(40), batch_size=5, shuffle=True, collate_fn=collate)
valid_loader = DataLoader(Sequences(12), batch_size=6, collate_fn=collate)
encoder, decoder = Encoder(), Decoder()
optimizer = optim.SGD(itertools.chain(encoder.parameters(), decoder.parameters()), lr=0.002)
mse = nn.MSELoss()


@torch.no_grad()
def validate():
    encoder.eval()
    decoder.eval()
    total, count = 0.0, 0
    for sequences, sums in valid_loader:
        total += mse(decoder(encoder(sequences)), sums).item() * len(sums)
        count += len(sums)
    return total / count


for epoch in range(2):
    encoder.train()
    decoder.train()
    for sequences, sums in train_loader:
        optimizer.zero_grad()
        loss = mse(decoder(encoder(sequences)), sums)
        loss.backward()
        nn.utils.clip_grad_norm_(itertools.chain(encoder.parameters(), decoder.parameters()), 5.0)
        optimizer.step()
    result = validate()
    print("epoch", epoch, "validation %.3f" % result)
torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, "both.pt")
