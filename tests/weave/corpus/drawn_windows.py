"""A character model on windows that each step draws at random (get_batch), which computes its own loss."""
import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size = 6
block_size = 8
eval_iters = 3
torch.manual_seed(1337)
text = "".join("abcdefgh "[(i * i + 3 * i) % 9] for i in range(400))
chars = list(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
n = int(0.9 * len(data))
train_data, val_data = data[:n], data[n:]


def get_batch(split):
    source = train_data if split == "train" else val_data
    ix = torch.randint(len(source) - block_size, (batch_size,))
    x = torch.stack([source[i:i + block_size] for i in ix])
    y = torch.stack([source[i + 1:i + block_size + 1] for i in ix])
    return x, y


class Model(nn.Module):
    def __init__(self, vocab, size):
        super().__init__()
        self.tokens = nn.Embedding(vocab, size)
        self.positions = nn.Embedding(block_size, size)
        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
        self.head = nn.Linear(size, vocab)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        x = self.tokens(idx) + self.positions(torch.arange(T))
        mask = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)
        x = x + self.attention(x, x, x, attn_mask=mask)[0]
        logits = self.head(x)
        if targets is None:
            loss = None
        else:
            B, T, C = logits.shape
            loss = F.cross_entropy(logits.view(B * T, C), targets.view(B * T))
        return logits, loss


@torch.no_grad()
def estimate_loss(model):
    out = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            logits, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean().item()
    model.train()
    return out


model = Model(len(chars), 16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(12):
    if step % 4 == 0:
        losses = estimate_loss(model)
        print(f"step {step}: train {losses['train']:.4f}, val {losses['val']:.4f}")
    xb, yb = get_batch("train")
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print(f"last {loss.item():.4f}")
torch.save(model.state_dict(), "gpt.pt")
