"""Callbacks that receive the trainer and save its model; epochs counted in an attribute."""
# not for horovod: after how many batches the optimizer steps is an argument
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Callback:
    def on_epoch_end(self, trainer): pass

class Printer(Callback):
    def on_epoch_end(self, trainer):
        print(f"epoch {trainer.epoch}: " + ", ".join(f"{k} {v:.4f}" for k, v in trainer.logs.items()))

class Checkpoint(Callback):
    def __init__(self, path, monitor="val_loss"):
        self.path, self.monitor, self.best = path, monitor, float("inf")
    def on_epoch_end(self, trainer):
        if trainer.logs[self.monitor] < self.best:
            self.best = trainer.logs[self.monitor]
            torch.save(trainer.module.state_dict(), self.path)

class EarlyStopping(Callback):
    def __init__(self, patience=2, monitor="val_loss"):
        self.patience, self.monitor, self.best, self.bad = patience, monitor, float("inf"), 0
    def on_epoch_end(self, trainer):
        if trainer.logs[self.monitor] < self.best - 1e-4:
            self.best, self.bad = trainer.logs[self.monitor], 0
        else:
            self.bad += 1
            if self.bad >= self.patience:
                trainer.should_stop = True

class Module(nn.Module):
    def __init__(self, lr=0.05):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1))
        self.lr = lr
    def forward(self, x): return self.net(x)
    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)
    def validation_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)
    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.lr)
        return opt, torch.optim.lr_scheduler.StepLR(opt, 1, 0.9)

class Trainer:
    def __init__(self, max_epochs, callbacks=(), accelerator="auto", accumulate=1):
        self.max_epochs, self.callbacks, self.accumulate = max_epochs, callbacks, accumulate
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.should_stop = False
        self.logs = {}
    def fit(self, module, train_loader, val_loader=None):
        self.module = module.to(self.device)
        optimizer, scheduler = self.module.configure_optimizers()
        for self.epoch in range(self.max_epochs):
            self.module.train()
            running = 0.0
            for idx, batch in enumerate(train_loader):
                batch = [b.to(self.device) for b in batch]
                loss = self.module.training_step(batch, idx)
                (loss / self.accumulate).backward()
                if (idx + 1) % self.accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                running += loss.item() * batch[0].size(0)
            self.logs["train_loss"] = running / len(train_loader.dataset)
            if val_loader is not None:
                self.validate(val_loader)
            scheduler.step()
            for c in self.callbacks:
                c.on_epoch_end(self)
            if self.should_stop:
                break
    @torch.no_grad()
    def validate(self, loader):
        self.module.eval()
        total, n = 0.0, 0
        for idx, batch in enumerate(loader):
            batch = [b.to(self.device) for b in batch]
            total += self.module.validation_step(batch, idx).item() * len(batch[0])
            n += len(batch[0])
        self.logs["val_loss"] = total / n

if __name__ == "__main__":
    torch.manual_seed(7)
    x = torch.randn(120, 8)
    ds = TensorDataset(x, x.sum(1, keepdim=True))
    train, val = torch.utils.data.random_split(ds, [96, 24])
    trainer = Trainer(3, callbacks=[Printer(), Checkpoint("best.pt"), EarlyStopping()])
    trainer.fit(Module(), DataLoader(train, 8, shuffle=True), DataLoader(val, 12))
