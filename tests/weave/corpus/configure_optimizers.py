"""The model creates its optimizer in a method; text as blocks of characters; the loss comes from forward()."""
import math
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.ln = nn.LayerNorm(n)
        self.mlp = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))

    def forward(self, x):
        return x + self.mlp(self.ln(x))


class GPT(nn.Module):
    def __init__(self, vocab, n):
        super().__init__()
        self.wte = nn.Embedding(vocab, n)
        self.blocks = nn.ModuleList([Block(n) for _ in range(2)])
        self.head = nn.Linear(n, vocab, bias=False)

    def configure_optimizers(self, train_config):
        decay = [p for n, p in self.named_parameters() if p.dim() >= 2]
        no_decay = [p for n, p in self.named_parameters() if p.dim() < 2]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=train_config.learning_rate, betas=(0.9, 0.95))
        return optimizer

    def forward(self, idx, targets=None):
        x = self.wte(idx)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = None
        if targets is not None:
            loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


class Chars(Dataset):
    def __init__(self, text, block):
        chars = sorted(set(text))
        self.ids = torch.tensor([chars.index(c) for c in text])
        self.block = block
        self.vocab = len(chars)

    def __len__(self):
        return len(self.ids) - self.block

    def __getitem__(self, i):
        chunk = self.ids[i:i + self.block + 1]
        return chunk[:-1], chunk[1:]


class Config:
    learning_rate = 3e-3
    max_epochs = 2
    batch_size = 8


class Trainer:
    def __init__(self, config, model, train_dataset):
        self.config = config
        self.model = model
        self.train_dataset = train_dataset
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = self.model.to(self.device)

    def run(self):
        model, config = self.model, self.config
        self.optimizer = model.configure_optimizers(config)
        loader = DataLoader(self.train_dataset, batch_size=config.batch_size, shuffle=True)
        for epoch in range(config.max_epochs):
            total = 0.0
            for x, y in loader:
                logits, self.loss = model(x.to(self.device), y.to(self.device))
                model.zero_grad(set_to_none=True)
                self.loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                self.optimizer.step()
                total += self.loss.item()
            print(f"epoch {epoch} loss {total / len(loader):.4f}")


torch.manual_seed(0)
data = Chars("the quick brown fox jumps over the lazy dog again and again " * 2, 8)
trainer = Trainer(Config(), GPT(data.vocab, 16), data)
trainer.run()
