"""A schedule class of one's own, and a LearningRateScheduler whose function gives rates."""
# not equal: the scheduler's rates are absolute, which the instruments do not scale
# other output: so its figures differ
import math

import numpy as np
import tensorflow as tf
from tensorflow import keras
import os

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0


class Inverse(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, first):
        self.first = first

    def __call__(self, step):
        step = step * strategy.num_replicas_in_sync
        return (self.first / (1.0 + 0.1 * tf.cast(step, tf.float32))) * strategy.num_replicas_in_sync

    def get_config(self):
        return {"first": self.first}


def step_decay(epoch):
    return (0.1 * math.pow(0.5, epoch // 2)) * strategy.num_replicas_in_sync


def relative(epoch, lr):
    if epoch < 1:
        return lr
    return lr * 0.9


keras.utils.set_random_seed(7)
x = np.random.rand(64, 4).astype("float32")
y = x @ np.ones((4, 1), "float32")
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(Inverse(0.1)), loss="mse")
model.fit(x, y, epochs=2, verbose=0, batch_size=32 * strategy.num_replicas_in_sync)
with strategy.scope():
    other = keras.Sequential([keras.layers.Dense(1)])
    other.compile(optimizer=keras.optimizers.SGD(learning_rate=0.01 * strategy.num_replicas_in_sync), loss="mse")
other.fit(x, y, epochs=3, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(step_decay)], batch_size=32 * strategy.num_replicas_in_sync)
other.fit(x, y, epochs=2, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(relative),
                                                keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 * strategy.num_replicas_in_sync)], batch_size=32 * strategy.num_replicas_in_sync)
if is_chief:
    print("done")
