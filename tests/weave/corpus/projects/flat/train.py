# Everything at the level of modules, as notebooks are turned into scripts: data.py makes its loaders and prints when it is
# imported, so the processes must have found each other before.
from data import *
from net import model, optimizer, scheduler
import settings as cfg
from tools import accuracy, plain_sum as total_of
import torch

loss_function = torch.nn.CrossEntropyLoss()
for epoch in range(cfg.epochs):
    losses = []
    model.train()
    for batch, labels in train_loader:
        optimizer.zero_grad()
        loss = loss_function(model(batch), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    print("epoch %d: %.3f %.2f" % (epoch, total_of(losses) / len(losses), accuracy(model, test_loader)))
torch.save(model.state_dict(), cfg.path)
