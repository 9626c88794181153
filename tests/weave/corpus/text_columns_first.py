"""Text as one row for each sample ([columns, steps], batch_first), cut in the loop itself; then it draws a text."""
import torch
import torch.nn as nn
from torch.nn.utils import clip_grad_norm_

embed_size = 8
hidden_size = 12
num_layers = 1
batch_size = 5
seq_length = 6
torch.manual_seed(9)


class Corpus:
    def get_data(self, count, columns):
        ids = torch.randint(0, 3, (count,)).cumsum(0) % 13
        steps = ids.size(0) // columns
        ids = ids[:steps * columns]
        return ids.view(columns, -1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(13, embed_size)
        self.gru = nn.GRU(embed_size, hidden_size, num_layers, batch_first=True)
        self.linear = nn.Linear(hidden_size, 13)

    def forward(self, x, state):
        out, state = self.gru(self.embed(x), state)
        return self.linear(out.reshape(out.size(0) * out.size(1), out.size(2))), state


corpus = Corpus()
ids = corpus.get_data(305, batch_size)
num_batches = ids.size(1) // seq_length
model = Model()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    state = torch.zeros(num_layers, batch_size, hidden_size)
    for i in range(0, ids.size(1) - seq_length, seq_length):
        inputs = ids[:, i:i + seq_length]
        targets = ids[:, (i + 1):(i + 1) + seq_length]
        state = state.detach()
        outputs, state = model(inputs, state)
        loss = criterion(outputs, targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        step = (i + 1) // seq_length
        if step % 3 == 0:
            print(f"epoch {epoch + 1}, step {step}/{num_batches}: {loss.item():.4f}")

model.eval()
with torch.no_grad(), open("sample.txt", "w") as file:
    state = torch.zeros(num_layers, 1, hidden_size)
    word = torch.zeros(1, 1, dtype=torch.long)
    for _ in range(10):
        output, state = model(word, state)
        word = output.argmax(1, keepdim=True)
        file.write(f"{word.item()} ")
torch.save(model.state_dict(), "model.pt")
