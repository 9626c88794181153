"""A validation split by SubsetRandomSampler, and a DataParallel that goes."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

device = 'cuda' if torch.cuda.is_available() else 'cpu'
np.random.seed(0)
torch.manual_seed(0)
x = torch.randn(100, 5)
y = x.pow(2).sum(1, keepdim=True)
dataset = TensorDataset(x, y)
indices = list(range(len(dataset)))
np.random.shuffle(indices)
train_idx, valid_idx = indices[20:], indices[:20]
train_sampler = SubsetRandomSampler(train_idx)
valid_sampler = SubsetRandomSampler(valid_idx)
train_loader = DataLoader(dataset, batch_size=8, sampler=train_sampler)
valid_loader = DataLoader(dataset, batch_size=20, sampler=valid_sampler)

model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))
if torch.cuda.device_count() > 1:
    print("several GPUs")
    model = nn.DataParallel(model)
model.to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.RMSprop(model.parameters())

train_losses = []
for epoch in range(1, 4):
    train_loss = 0.0
    valid_loss = 0.0
    model.train()
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        train_loss += loss.item() * data.size(0)
    model.eval()
    for data, target in valid_loader:
        output = model(data.to(device))
        valid_loss += criterion(output, target.to(device)).item() * data.size(0)
    train_loss = train_loss / len(train_loader.sampler)
    valid_loss = valid_loss / len(valid_loader.sampler)
    train_losses.append(train_loss)
    # other output: the original's sampler, which the instruments replace, counts all samples
    print('Epoch: {} \tTraining Loss: {:.6f} \tValidation Loss: {:.6f}'.format(epoch, train_loss, valid_loss))
