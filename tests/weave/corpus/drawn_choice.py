"""Words around a word: NumPy chooses the pairs of each step, which become tensors."""
import numpy as np
import torch
from torch import nn

batch_size = 5
rng = np.random.RandomState(3)
pairs = [(i % 7, (i * i + 1) % 7) for i in range(30)]


def random_batch():
    chosen_inputs, chosen_labels = [], []
    for i in np.random.choice(range(len(pairs)), batch_size, replace=False):
        chosen_inputs.append(np.eye(7)[pairs[i][0]])
        chosen_labels.append(pairs[i][1])
    return chosen_inputs, chosen_labels


torch.manual_seed(3)
model = nn.Sequential(nn.Linear(7, 3, bias=False), nn.Linear(3, 7, bias=False))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history = []
for step in range(20):
    inputs, labels = random_batch()
    inputs, labels = torch.Tensor(np.array(inputs)), torch.LongTensor(labels)
    weights = rng.rand()
    optimizer.zero_grad()
    output = model(inputs)
    loss = criterion(output, labels)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 5 == 4:
        print(f"step {step + 1}: {np.mean(history[-5:]):.4f}, {weights:.3f}")
