"""Batches that take() and skip() count; options of fit() in a dictionary; an optimizer whose default is None."""
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


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

rng = np.random.RandomState(5)
x = rng.rand(60, 4).astype("float32")
y = x.sum(axis=1, keepdims=True).astype("float32")
tf.keras.utils.set_random_seed(5)

batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
val_ds = batches.take(3)
train_ds = shard(batches.skip(3))


def get_optimizer():
    return tf.keras.optimizers.SGD(0.05 * hvd.size())


def compile_and_fit(model, optimizer=None):
    if optimizer is None:
        optimizer = get_optimizer()
    model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss="mse")
    return model.fit(train_ds, validation_data=val_ds, epochs=2, verbose=1 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])


def network():
    return tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])


small = network()
history = compile_and_fit(small)
if hvd.rank() == 0:
    print("val_loss %.4f" % history.history["val_loss"][-1])

fit_config = dict(batch_size=5, epochs=2)
other = network()
other.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01 * hvd.size())), loss="mse")
other.fit(share(x), share(y), **fit_config, verbose=1 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("loss %.4f" % other.evaluate(x, y, verbose=0))
