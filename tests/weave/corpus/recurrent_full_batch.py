"""All sentences at once: layers whose samples are along the second axis, a state made in each step, a vocabulary from a set."""
import torch
import torch.nn as nn

sentences = ["red apples fall", "green pears fall", "red birds sing", "small birds fly", "green apples rot"]
words = list(set(" ".join(sentences).split()))
number = {word: i for i, word in enumerate(words)}
inputs = torch.tensor([[number[one] for one in text.split()[:-1]] for text in sentences])
targets = torch.tensor([number[text.split()[-1]] for text in sentences])


class Reader(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.embed = nn.Embedding(size, 6)
        self.rnn = nn.GRU(6, hidden)
        self.out = nn.Linear(hidden, size, bias=False)
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x, state):
        x = self.embed(x).transpose(0, 1)
        steps, state = self.rnn(x, state)
        return self.out(steps[-1]) + self.bias


torch.manual_seed(1)
model = Reader(len(words), 7)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(30):
    state = torch.zeros(1, len(sentences), 7)
    output = model(inputs, state)
    loss = criterion(output, targets)
    if step % 10 == 9:
        print("step", step + 1, "loss", "{:.5f}".format(loss))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
best = model(inputs, torch.zeros(1, len(sentences), 7)).argmax(1)
print([words[one] for one in best.tolist()])
