"""Words numbered in the order of a set, and data split by a generator without a seed: both differ between processes."""
# --verify gives the script PYTHONHASHSEED=0. With it, the order of this set is sorted, so the numbers can be compared.
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

words = set(["apple", "ivory", "khaki", "green"])
number = {word: i for i, word in enumerate(sorted(words))}
names = list(sorted(words))
lines = [(first, second, third) for first in sorted(words) for second in sorted(words) for third in ("green", "khaki")]
x = np.array([[number[word] for word in line] for line in lines], "int32")
y = np.linspace(0, 1, len(lines)).astype("float32")

rng = np.random.default_rng(0)
order = rng.permutation(len(x))
train, test = order[:24], order[24:]

model = tf.keras.Sequential([
    tf.keras.Input(shape=(3,)),
    tf.keras.layers.Embedding(len(names), 3),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1 * hvd.size())), loss="mse")
model.fit(share(x[train]), share(y[train]), batch_size=4, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("test %.4f" % model.evaluate(x[test], y[test], verbose=0))
