# %% [markdown]
# # A PyTorch module on Telar
#
# Your module, loss, optimizer and loader stay as they are; the step of the training loop is Telar's.
#
# It runs as a script, and VS Code opens it as a notebook (`# %%` begins a cell; Jupyter does so with jupytext):
#
#     PYTHONPATH=build/release/python python examples/python/pytorch_module.py

# %%
import copy
import gzip
import subprocess
import sys
import tempfile

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import telar
import telar.torch as tt

# %% [markdown]
# ## Data and module
#
# The first photos of Fashion-MNIST (Debian's package dataset-fashion-mnist), and a small convolutional network.

# %%
FASHION = "/usr/share/datasets/fashion-mnist"


def read(kind, count):
    """The first photos, [N, 1, 28, 28], and what they show, a number from 0 to 9."""
    with gzip.open(f"{FASHION}/{kind}-images-idx3-ubyte.gz") as file:
        photos = numpy.frombuffer(file.read(16 + count * 784), numpy.uint8, offset=16).reshape(count, 1, 28, 28)
    with gzip.open(f"{FASHION}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(8 + count), numpy.uint8, offset=8)
    return torch.from_numpy(photos.astype("float32") / 255), torch.from_numpy(labels.astype("int64"))


train_set, test_set = TensorDataset(*read("train", 6000)), TensorDataset(*read("t10k", 1000))
test_loader = DataLoader(test_set, batch_size=250)


def loader_of(seed):
    """Shuffled batches of 64; the last one has 48."""
    return DataLoader(train_set, batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(seed))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(32 * 6 * 6, 10))


def adam(model):
    return torch.optim.Adam(model.parameters(), 1e-3)


def accuracy_of(model):
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in test_loader) / len(test_set)


# %% [markdown]
# ## The loop
#
# In PyTorch, a step is four lines. They are here to compare with.

# %%
criterion = nn.CrossEntropyLoss()
plain = network()
plain_optimizer = adam(plain)
plain_losses = []
for images, labels in loader_of(1):
    plain_optimizer.zero_grad()
    loss = criterion(plain(images), labels)
    loss.backward()
    plain_optimizer.step()
    plain_losses.append(loss.item())
print("PyTorch: the first loss", plain_losses[0], "and the last", plain_losses[-1])

# %% [markdown]
# With Telar it is one line. The first call captures the module and compares loss and gradients with PyTorch's.
# The module and the optimizer have the new values whenever they are read.

# %%
model = network()
optimizer = adam(model)
step = tt.Step(model, criterion, optimizer)
losses = [step(images, labels) for images, labels in loader_of(1)]
print("Telar: the first loss", losses[0], "and the last", losses[-1])
assert numpy.allclose(losses, plain_losses, atol=5e-3)

# %% [markdown]
# ## Strategies
#
# A strategy divides the work; the losses stay those of one device, up to rounding. docs/strategies.md says which one to choose.

# %%
for strategy, options in (("mirrored", {"replicas": 2}), ("sharded", {"replicas": 2}), ("pipeline", {"stages": 2})):
    other = network()
    divided = tt.Step(other, criterion, adam(other), strategy=strategy, **options)
    found = [divided(images, labels) for (images, labels), _ in zip(loader_of(1), range(20))]
    print(f"{strategy}: after 20 steps {found[-1]:.5f}, one device {losses[19]:.5f}")
    assert numpy.allclose(found, losses[:20], atol=1e-3)

# %% [markdown]
# ## Evaluate and predict
#
# Both use the current values; the module itself has them, too, and predicts the same.

# %%
images, labels = test_set[:250]
print("loss on test samples:", step.evaluate(images, labels))
scores = step.predict(images)
print("accuracy on them:", (scores.argmax(1) == labels).float().mean().item())
with torch.no_grad():
    assert torch.allclose(scores, model(images), atol=1e-4)

# %% [markdown]
# ## Save, and load without PyTorch
#
# The file has the network, its loss and the values. `telar train` trains it further; `telar.load` needs NumPy alone.

# %%
folder = tempfile.mkdtemp()
step.save(f"{folder}/clothes.telar")
numpy.save(f"{folder}/images.npy", images.numpy())
program = """
import sys, numpy, telar
folder = sys.argv[1]
scores = telar.load(f"{folder}/clothes.telar").predict(numpy.load(f"{folder}/images.npy"))
assert "torch" not in sys.modules
numpy.save(f"{folder}/scores.npy", scores)
"""
subprocess.run([sys.executable, "-c", program, folder], check=True)
assert numpy.allclose(numpy.load(f"{folder}/scores.npy"), scores.numpy(), atol=1e-4)
print("means of the file:", telar.load(f"{folder}/clothes.telar").evaluate(images, labels))

# %% [markdown]
# ## A whole training: `fit`
#
# It makes the epochs, evaluates, and writes a checkpoint after each of them.

# %%
def trained(output, epochs, resume=False):
    net = network()
    return net, tt.fit(net, criterion, adam(net), loader_of(2), epochs=epochs, validation=test_loader, output=output,
                       resume=resume, strategy="mirrored", replicas=2)


fitted, history = trained(f"{folder}/whole", epochs=3)
print([round(epoch["validation_loss"], 4) for epoch in history])

# %% [markdown]
# A training that was stopped goes on from its last checkpoint, in a new process, too. Here the first part ends after an
# epoch. The end is that of the training without a stop, number for number.

# %%
trained(f"{folder}/parts", epochs=1)
resumed, resumed_history = trained(f"{folder}/parts", epochs=3, resume=True)
assert [epoch["loss"] for epoch in resumed_history] == [epoch["loss"] for epoch in history]
assert all(torch.equal(a, b) for a, b in zip(fitted.parameters(), resumed.parameters()))

# %% [markdown]
# ## The module is PyTorch's, as before
#
# Values and the optimizer's state are back in it. So whatever you do with modules works: `torch.save`, a further training.

# %%
print("accuracy of the module:", accuracy_of(fitted))
assert accuracy_of(fitted) > 0.75
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/clothes.pt")
further = copy.deepcopy(model)
saved = torch.load(f"{folder}/clothes.pt")
further.load_state_dict(saved["model"])
further_optimizer = adam(further)
further_optimizer.load_state_dict(saved["optimizer"])
assert further_optimizer.state[next(further.parameters())]["step"] == len(losses)

# %% [markdown]
# ## What Telar refuses
#
# A module that Telar cannot compute is computed by PyTorch, with a warning that says why. `engine="telar"` refuses instead.

# %%
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        return torch.special.i0(self.fc(x.flatten(1)))


odd = Odd()
try:
    tt.Step(odd, criterion, adam(odd), engine="telar")(images, labels)
    raise AssertionError("it was not refused")
except telar.Error as error:
    print(error)
