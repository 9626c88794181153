"""A list and a tuple of datasets from one call, of which training takes one."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
import horovod.tensorflow.keras as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

keras.utils.set_random_seed(2)
x = np.random.rand(112, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)


def make_datasets(parts):
    datasets = []
    for begin, end in parts:
        datasets.append(tf.data.Dataset.from_tensor_slices((x[begin:end], y[begin:end])).batch(8))
    return datasets


def make_two():
    whole = tf.data.Dataset.from_tensor_slices((x, y))
    return whole.take(80).batch(8), whole.skip(80).batch(8)


train_ds, val_ds = make_datasets([(0, 80), (80, 112)])
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.05 * hvd.size())), loss="mse")
model.fit(shard(train_ds), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("%.4f" % model.evaluate(val_ds, verbose=0))

both = make_two()
again = keras.Sequential([keras.layers.Dense(1)])
again.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.05 * hvd.size())), loss="mse")
again.fit(shard(both[0]), validation_data=both[1], epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("%.4f" % again.evaluate(both[1], verbose=0))
