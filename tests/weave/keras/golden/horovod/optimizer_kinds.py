"""Optimizers under other names (tf.optimizers) and subclasses of optimizers, whose rates are arguments or defaults."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
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

keras.utils.set_random_seed(8)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Plain(keras.optimizers.SGD):
    """Adds nothing that concerns the rate."""


class WithDefault(tf.keras.optimizers.SGD):
    def __init__(self, learning_rate=0.02, name="WithDefault", **options):
        super().__init__(learning_rate=learning_rate, name=name, **options)


def train(optimizer):
    model = keras.Sequential([keras.Input(shape=(4,)), keras.layers.Dense(1)])
    model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss=tf.losses.MeanSquaredError())
    model.fit(share(x), share(y), batch_size=8, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
    if hvd.rank() == 0:
        print("%.4f" % model.evaluate(x, y, verbose=0))


train(tf.optimizers.SGD(0.05 * hvd.size()))
train(Plain(0.04 * hvd.size()))
train(Plain(learning_rate=0.01 * hvd.size()))
train(WithDefault(learning_rate=0.02 * hvd.size()))
