"""Words numbered in the order of a set, and data split by a generator without a seed: both differ between processes."""
# --verify gives the script PYTHONHASHSEED=0. With it, the order of this set is sorted, so the numbers can be compared.
import numpy as np
import tensorflow as tf
import os


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

words = set(["apple", "ivory", "khaki", "green"])
number = {word: i for i, word in enumerate(sorted(words))}
names = list(sorted(words))
lines = [(first, second, third) for first in sorted(words) for second in sorted(words) for third in ("green", "khaki")]
x = np.array([[number[word] for word in line] for line in lines], "int32")
y = np.linspace(0, 1, len(lines)).astype("float32")

rng = np.random.default_rng(0)
order = rng.permutation(len(x))
train, test = order[:24], order[24:]

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.Input(shape=(3,)),
        tf.keras.layers.Embedding(len(names), 3),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(1),
    ])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1 * strategy.num_replicas_in_sync), loss="mse")
model.fit(x[train], y[train], batch_size=4 * strategy.num_replicas_in_sync, epochs=2, verbose=0)
print_on_rank_0("test %.4f" % model.evaluate(x[test], y[test], verbose=0))
