"""Words numbered in the order of a set, and data split by a generator without a seed: both differ between processes."""
import numpy as np
import tensorflow as tf
import os

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

lines = ["the cat sat on a mat", "a dog lay on the rug", "the bird sang in a tree", "a fish swam in the sea"] * 10
words = set(word for line in lines for word in line.split())
number = {word: i for i, word in enumerate(sorted(words))}
names = list(sorted(words))
x = np.array([[number[word] for word in line.split()] for line in lines], "int32")
y = np.linspace(0, 1, len(lines)).astype("float32")

rng = np.random.default_rng(0)
order = rng.permutation(len(x))
train = order[:32]

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input(shape=(6,)),
        tf.keras.layers.Embedding(len(names), 3),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(1),
    ])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1 * strategy.num_replicas_in_sync), loss="mse")
model.fit(x[train], y[train], batch_size=4 * strategy.num_replicas_in_sync, epochs=2, verbose=0)
if is_chief:
    print(len(names), "words,", len(train), "of", len(x), "lines")
