"""A dataset whose length only shows when it is read: from_generator and filter."""
# other output: TensorFlow counts one step more, of no samples, at the end of a dataset whose length it does not know, or it does not
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers
import os
import tempfile

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

tf.keras.utils.set_random_seed(8)
numbers = np.random.rand(100, 4).astype("float32")


def samples():
    for row in numbers:
        yield row, row.sum()


def make_dataset():
    spec = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.float32))
    ds = tf.data.Dataset.from_generator(samples, output_signature=spec)
    ds = ds.filter(lambda x, y: y > 1.0)
    return ds.take(64)


train = make_dataset().batch(8 * strategy.num_replicas_in_sync, drop_remainder=True).prefetch(2)


class Net(Model):
    def __init__(self, width):
        super().__init__()
        self.first = layers.Dense(width, activation="relu")
        self.last = layers.Dense(1)

    def call(self, x):
        return self.last(self.first(x))


with strategy.scope():
    net = Net(7)
    net.compile(optimizer=tf.keras.optimizers.SGD(learning_rate=1e-2 * strategy.num_replicas_in_sync), loss="mse")
history = net.fit(train, epochs=3, verbose=2 if is_chief else 0)
if is_chief:
    print("loss", history.history["loss"][-1])
net.save_weights("net.weights.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("net.weights.h5")))
