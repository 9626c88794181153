"""A language model on text in columns (batchify, get_batch): hidden states, an annealed rate, the best model loaded."""
import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=6)
parser.add_argument("--bptt", type=int, default=5)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--log-interval", type=int, default=4)
args = parser.parse_args()
torch.manual_seed(1111)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
words = torch.randint(0, 3, (540,)).cumsum(0) % 17
eval_batch_size = 4


class Net(nn.Module):
    def __init__(self, count, size, layers):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(count, size)
        self.rnn = nn.LSTM(size, size, layers)
        self.decoder = nn.Linear(size, count)
        self.size, self.layers, self.count = size, layers, count

    def forward(self, text, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(text)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.count)
        return torch.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return (weight.new_zeros(self.layers, batch, self.size), weight.new_zeros(self.layers, batch, self.size))


def batchify(data, columns):
    rows = data.size(0) // columns
    data = data.narrow(0, 0, rows * columns)
    data = data.view(columns, -1).t().contiguous()
    return data.to(device)


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    data = source[i:i + length]
    target = source[i + 1:i + 1 + length].view(-1)
    return data, target


def repackage(hidden):
    if isinstance(hidden, torch.Tensor):
        return hidden.detach()
    return tuple(repackage(one) for one in hidden)


train_data = batchify(words[:420], args.batch_size)
val_data = batchify(words[420:], eval_batch_size)
model = Net(17, 16, 1).to(device)
criterion = nn.NLLLoss()
lr = 1.0
optimizer = torch.optim.SGD(model.parameters(), lr=lr)


def evaluate(source):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(eval_batch_size)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, args.bptt):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            hidden = repackage(hidden)
            total += len(data) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train(epoch):
    model.train()
    total_loss = 0.0
    hidden = model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        optimizer.zero_grad()
        hidden = repackage(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        total_loss += loss.item()
        if batch % args.log_interval == 0 and batch > 0:
            mean = total_loss / args.log_interval
            print(f"epoch {epoch}, {batch}/{len(train_data) // args.bptt}, loss {mean:.3f}, ppl {math.exp(mean):.2f}")
            total_loss = 0.0


best = None
for epoch in range(1, args.epochs + 1):
    train(epoch)
    val_loss = evaluate(val_data)
    print(f"end of epoch {epoch}: {val_loss:.3f}")
    if best is None or val_loss < best:
        with open("model.pt", "wb") as file:
            torch.save(model, file)
        best = val_loss
    else:
        lr /= 4.0
        for group in optimizer.param_groups:
            group["lr"] = lr

with open("model.pt", "rb") as file:
    model = torch.load(file, weights_only=False)
model.rnn.flatten_parameters()
print(f"best: {evaluate(val_data):.3f}")
