"""A schedule class of one's own, and a LearningRateScheduler whose function gives rates."""
# not equal: the scheduler's rates are absolute, which the instruments do not scale
# other output: so its figures differ
import math

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


@tf.keras.utils.register_keras_serializable()
class Inverse(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, first):
        self.first = first

    def __call__(self, step):
        step = step * hvd.size()
        return (self.first / (1.0 + 0.1 * tf.cast(step, tf.float32))) * hvd.size()

    def get_config(self):
        return {"first": self.first}


def step_decay(epoch):
    return (0.1 * math.pow(0.5, epoch // 2)) * hvd.size()


def relative(epoch, lr):
    if epoch < 1:
        return lr
    return lr * 0.9


keras.utils.set_random_seed(7)
x = np.random.rand(64, 4).astype("float32")
y = x @ np.ones((4, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(Inverse(0.1))), loss="mse")
model.fit(share(x), share(y), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
other = keras.Sequential([keras.layers.Dense(1)])
other.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(learning_rate=0.01 * hvd.size())), loss="mse")
other.fit(share(x), share(y), epochs=3, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), keras.callbacks.LearningRateScheduler(step_decay)])
other.fit(share(x), share(y), epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), keras.callbacks.LearningRateScheduler(relative),
                                                keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 * hvd.size())])
if hvd.rank() == 0:
    print("done")
