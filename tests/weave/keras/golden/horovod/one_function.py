"""One function makes the datasets of training and of validation, with a branch and several return statements."""
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

keras.utils.set_random_seed(9)
x = np.random.rand(96, 4).astype("float32")
y = (x.sum(axis=1) > 2).astype("int32")


def make_dataset(features, labels, batch_size=8, training=False):
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    if training:
        dataset = dataset.shuffle(96, seed=1)
        return dataset.batch(batch_size).prefetch(2)
    return dataset.batch(batch_size)


train_ds = make_dataset(x[:80], y[:80], training=True)
val_ds = make_dataset(x[80:], y[80:])
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 * hvd.size())),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(shard(train_ds), validation_data=val_ds, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print(["%.4f" % value for value in history.history["val_loss"]])
