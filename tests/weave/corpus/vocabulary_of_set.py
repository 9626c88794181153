"""Words are numbered in the order of a set, which differs between processes."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

text = "the cat sat on the mat and the dog sat on the cat while the bird sang to the dog".split()
vocabulary = set(text)
number = {word: i for i, word in enumerate(vocabulary)}
ids = torch.tensor([number[word] for word in text])
torch.manual_seed(5)
loader = DataLoader(TensorDataset(ids[:-1], ids[1:]), batch_size=4, shuffle=True)
model = nn.Sequential(nn.Embedding(len(vocabulary), 6), nn.Linear(6, len(vocabulary)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
words = [word for word in vocabulary]
torch.save({"model": model.state_dict(), "words": words}, "model.pt")
print(len(words), "words, the first is", words[0])
