"""Gradients of several batches are summed; training resumes from a checkpoint."""
# not for horovod: after how many batches the optimizer steps is an argument
import argparse
import os

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader


class Points(Dataset):
    """A plane with a little curvature."""

    def __init__(self, n=96):
        g = torch.Generator().manual_seed(5)
        self.x = torch.rand(n, 3, generator=g)
        self.y = (self.x * torch.tensor([1.0, -2.0, 0.5])).sum(1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "y": self.y[index]}


class Net(torch.nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.inner = torch.nn.Linear(3, hidden)
        self.outer = torch.nn.Linear(hidden, 1)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def build(args):
    model = Net(args.hidden)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=args.lr)
    return model, optimizer


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=8)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--checkpoint", default="last.pt")
    args = p.parse_args()
    torch.manual_seed(11)
    model, optimizer = build(args)
    start = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    data = Points()
    loader = DataLoader(data, 8, True)
    for epoch in range(start, 3):
        total = 0.0
        optimizer.zero_grad()
        for i, batch in enumerate(loader):
            loss = F.mse_loss(model(batch["x"]), batch["y"])
            (loss / args.accumulate).backward()
            total += loss.item() * len(batch["x"])
            if (i + 1) % args.accumulate == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        print("epoch %d loss %.5f" % (epoch, total / len(data)))
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, args.checkpoint)


if __name__ == "__main__":
    main()
