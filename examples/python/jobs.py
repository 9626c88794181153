# %% [markdown]
# # Jobs from Python, with NumPy alone
#
# A job names a model, data and a strategy; Telar trains it in a process of its own, and Python gets dicts and arrays.
# Nothing here needs PyTorch or Keras.
#
# It runs as a script, and VS Code opens it as a notebook (`# %%` begins a cell; Jupyter does so with jupytext):
#
#     PYTHONPATH=build/release/python python examples/python/jobs.py

# %%
import gzip
import tempfile

import numpy

import telar

# %% [markdown]
# ## Your arrays
#
# Any NumPy arrays will do. Here they are photos of clothes, Fashion-MNIST (Debian's package dataset-fashion-mnist).

# %%
FASHION = "/usr/share/datasets/fashion-mnist"


def read(kind, count):
    """The first photos, [N, 1, 28, 28], and what they show, a number from 0 to 9."""
    with gzip.open(f"{FASHION}/{kind}-images-idx3-ubyte.gz") as file:
        photos = numpy.frombuffer(file.read(16 + count * 784), numpy.uint8, offset=16).reshape(count, 1, 28, 28)
    with gzip.open(f"{FASHION}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(8 + count), numpy.uint8, offset=8)
    return photos.astype("float32") / 255, labels.astype("int64")


train_x, train_y = read("train", 6000)
test_x, test_y = read("t10k", 1000)

folder = tempfile.mkdtemp()
for name, array in (("x", train_x), ("y", train_y), ("test_x", test_x), ("test_y", test_y)):
    numpy.save(f"{folder}/{name}.npy", array)

# %% [markdown]
# ## A job
#
# docs/job.md has all keys. A key can also be given to `telar.train`, as to `telar train --set`.

# %%
job = f"{folder}/clothes.yaml"
with open(job, "w", encoding="utf-8") as file:
    file.write(f"""
model: {{name: mlp, options: {{hidden: [128]}}}}
data:
  source: npy
  path: {folder}/x.npy
  label_path: {folder}/y.npy
  test_path: {folder}/test_x.npy
  test_label_path: {folder}/test_y.npy
  classes: 10
optimizer: adam
training: {{epochs: 2, batch: 64}}
""")

alone = telar.train(job, output=f"{folder}/alone")
print("one device:", alone["test_loss"], alone["test_accuracy"])

# %% [markdown]
# ## In parallel
#
# One key changes the strategy. Two replicas, each with half of every batch, give what one device gives, up to rounding.

# %%
replicas = {"strategy.name": "mirrored", "strategy.replicas": 2}
together = telar.train(job, output=f"{folder}/together", **replicas)
print("two replicas:", together["test_loss"], together["test_accuracy"])
assert abs(together["test_loss"] - alone["test_loss"]) < 1e-3

# %% [markdown]
# With a parameter server, server and workers are processes of this machine. The workers do not wait for each other.

# %%
served = telar.train(job, output=f"{folder}/served", **{"strategy.name": "downpour", "strategy.workers": 2})
print("two workers and a server:", served["test_loss"], served["test_accuracy"])
assert served["test_accuracy"] > 0.6

# %% [markdown]
# ## Use what was trained
#
# `telar.evaluate` takes the test samples of the job, `telar.predict` any array. It gives the probability of each class.

# %%
means = telar.evaluate(f"{folder}/together")
probabilities = telar.predict(f"{folder}/together", test_x)
accuracy = numpy.mean(probabilities.argmax(1) == test_y)
print("accuracy by telar.evaluate:", means["test_accuracy"], "and by NumPy:", accuracy)
assert probabilities.shape == (1000, 10) and abs(accuracy - means["test_accuracy"]) < 1e-6

# %% [markdown]
# ## Go on
#
# A run that was stopped, or shall have more epochs, continues from its newest checkpoint.

# %%
longer = telar.train(f"{folder}/together", resume=True, **{"training.epochs": 4})
print("after", longer["epochs"], "epochs:", longer["test_loss"], longer["test_accuracy"])
assert longer["epochs"] == 4 and longer["train_loss"] < together["train_loss"]

# %% [markdown]
# ## Mistakes are sentences

# %%
try:
    telar.train(job, output=f"{folder}/other", **{"strategy.name": "mirored"})
    raise AssertionError("a strategy without a name has been trained")
except telar.Error as error:
    print(error)

# %% [markdown]
# ## Files of models
#
# `telar.load` reads a model file, which `telar.torch.Step.save` and `telar.keras.save` write. See pytorch_module.py and
# keras_model.py; a model file is also the model of a job, `model: {file: m.telar}`.
