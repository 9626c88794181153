import torch
from torch.utils.data import DataLoader, TensorDataset
from settings import batch_size

torch.manual_seed(5)
inputs = torch.randn(200, 4)
labels_of_all = (inputs.prod(1) > 0).long()
train_set = TensorDataset(inputs[:160], labels_of_all[:160])
train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
test_loader = DataLoader(TensorDataset(inputs[160:], labels_of_all[160:]), batch_size=batch_size)
print("samples:", len(train_set))
