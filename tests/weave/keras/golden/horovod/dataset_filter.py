"""A dataset whose length only shows when it is read: from_generator and filter."""
# other output: TensorFlow counts one step more, of no samples, at the end of a dataset whose length it does not know, or it does not
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers
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

tf.keras.utils.set_random_seed(8)
numbers = np.random.rand(100, 4).astype("float32")


def samples():
    for row in numbers:
        yield row, row.sum()


def make_dataset():
    spec = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.float32))
    ds = tf.data.Dataset.from_generator(samples, output_signature=spec)
    ds = ds.filter(lambda x, y: y > 1.0)
    return shard(ds.take(64))


train = make_dataset().batch(8, drop_remainder=True).prefetch(2)


class Net(Model):
    def __init__(self, width):
        super().__init__()
        self.first = layers.Dense(width, activation="relu")
        self.last = layers.Dense(1)

    def call(self, x):
        return self.last(self.first(x))


net = Net(7)
net.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate=1e-2 * hvd.size())), loss="mse")
history = net.fit(train, epochs=3, verbose=2 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("loss", history.history["loss"][-1])
    net.save_weights("net.weights.h5")
