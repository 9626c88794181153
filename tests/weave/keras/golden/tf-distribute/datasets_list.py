"""A list and a tuple of datasets from one call, of which training takes one."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
import os


def print_on_rank_0(*values, **options):
    if is_chief:
        print(*values, **options)


strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

keras.utils.set_random_seed(2)
x = np.random.rand(112, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)


def make_datasets(parts):
    datasets = []
    for begin, end in parts:
        datasets.append(tf.data.Dataset.from_tensor_slices((x[begin:end], y[begin:end])).batch(8 * strategy.num_replicas_in_sync))
    return datasets


def make_two():
    whole = tf.data.Dataset.from_tensor_slices((x, y))
    return whole.take(80).batch(8 * strategy.num_replicas_in_sync), whole.skip(80).batch(8 * strategy.num_replicas_in_sync)


train_ds, val_ds = make_datasets([(0, 80), (80, 112)])
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.05 * strategy.num_replicas_in_sync), loss="mse")
model.fit(train_ds, epochs=2, verbose=0)
print_on_rank_0("%.4f" % model.evaluate(val_ds, verbose=0))

both = make_two()
with strategy.scope():
    again = keras.Sequential([keras.layers.Dense(1)])
    again.compile(optimizer=keras.optimizers.SGD(0.05 * strategy.num_replicas_in_sync), loss="mse")
again.fit(both[0], validation_data=both[1], epochs=2, verbose=0)
print_on_rank_0("%.4f" % again.evaluate(both[1], verbose=0))
