"""A home-made Lightning: a trainer calls steps of a module, which makes its loaders and optimizers and logs its numbers by a method."""
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.logged = {}

    def log(self, name, value):
        self.logged.setdefault(name, []).append(float(value))

    def configure_optimizers(self):
        raise NotImplementedError


class LitClassifier(Module):
    def __init__(self, lr=0.05):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        out = self(x)
        self.log("val_loss", F.cross_entropy(out, y))
        self.log("val_acc", (out.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
        return [optimizer], [scheduler]

    def train_dataloader(self):
        torch.manual_seed(1)
        x = torch.rand(64, 5)
        return DataLoader(TensorDataset(x, (x.sum(1) > 2.5).long()), batch_size=8, shuffle=True)

    def val_dataloader(self):
        x = torch.linspace(0, 1, 100).reshape(20, 5)
        return DataLoader(TensorDataset(x, (x.sum(1) > 2.5).long()), batch_size=8)


class Checkpoint:
    def __init__(self, folder):
        self.folder = folder
        self.best = None

    def on_validation_end(self, trainer, module):
        value = trainer.metrics["val_loss"]
        if self.best is None or value < self.best:
            self.best = value
            os.makedirs(self.folder, exist_ok=True)
            torch.save({"state_dict": module.state_dict(), "epoch": trainer.epoch}, os.path.join(self.folder, "best.ckpt"))


class Trainer:
    def __init__(self, max_epochs, callbacks=()):
        self.max_epochs = max_epochs
        self.callbacks = list(callbacks)
        self.metrics = {}

    def call(self, hook, module):
        for callback in self.callbacks:
            method = getattr(callback, hook, None)
            if method is not None:
                method(self, module)

    def fit(self, module):
        optimizers, schedulers = module.configure_optimizers()
        optimizer = optimizers[0]
        train_loader = module.train_dataloader()
        val_loader = module.val_dataloader()
        for self.epoch in range(self.max_epochs):
            module.train()
            module.logged.clear()
            for batch_idx, batch in enumerate(train_loader):
                optimizer.zero_grad()
                loss = module.training_step(batch, batch_idx)
                loss.backward()
                optimizer.step()
            for scheduler in schedulers:
                scheduler.step()
            module.eval()
            with torch.no_grad():
                for batch_idx, batch in enumerate(val_loader):
                    module.validation_step(batch, batch_idx)
            self.metrics = {k: sum(v) / len(v) for k, v in module.logged.items()}
            print("epoch", self.epoch, " ".join("%s %.4f" % item for item in sorted(self.metrics.items())))
            self.call("on_validation_end", module)


torch.manual_seed(3)
trainer = Trainer(max_epochs=2, callbacks=[Checkpoint("ckpts")])
trainer.fit(LitClassifier())
