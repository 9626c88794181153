"""Encoder and decoder with teacher forcing by random.random(), clipping, the best training loss."""
import random
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

class Seqs(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(3)
        self.src = torch.randint(1, 9, (n, 5), generator=g)
    def __len__(self):
        return len(self.src)
    def __getitem__(self, i):
        return self.src[i], self.src[i].flip(0)

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 6)
        self.rnn = nn.GRU(6, 8, batch_first=True)
    def forward(self, x):
        out, h = self.rnn(self.emb(x))
        return h

class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 6)
        self.rnn = nn.GRU(6, 8, batch_first=True)
        self.out = nn.Linear(8, 9)
    def forward(self, token, h):
        o, h = self.rnn(self.emb(token).unsqueeze(1), h)
        return self.out(o.squeeze(1)), h

class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
    def forward(self, src, trg, ratio=0.5):
        h = self.encoder(src)
        token = torch.zeros(src.size(0), dtype=torch.long)
        outs = []
        for t in range(trg.size(1)):
            o, h = self.decoder(token, h)
            outs.append(o)
            token = trg[:, t] if random.random() < ratio else o.argmax(1)
        return torch.stack(outs, 1)

def train(model, loader, optimizer, criterion, clip):
    model.train()
    epoch_loss = 0
    for i, (src, trg) in enumerate(loader):
        optimizer.zero_grad()
        output = model(src, trg)
        loss = criterion(output.reshape(-1, 9), trg.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        epoch_loss += loss.item()
    return epoch_loss / len(loader)

SEED = 1234
random.seed(SEED)
torch.manual_seed(SEED)
loader = DataLoader(Seqs(40), batch_size=5, shuffle=True)
model = Seq2Seq(Encoder(), Decoder())
optimizer = optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()
best = float('inf')
for epoch in range(2):
    train_loss = train(model, loader, optimizer, criterion, 1)
    if train_loss < best:
        best = train_loss
        torch.save(model.state_dict(), 'tut1-model.pt')
    print(f'Epoch: {epoch+1:02} Train Loss: {train_loss:.3f}')
