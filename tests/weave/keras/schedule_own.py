"""A schedule class of one's own, and a LearningRateScheduler whose function gives rates."""
# not equal: the scheduler's rates are absolute, which the instruments do not scale
# other output: so its figures differ
import math

import numpy as np
import tensorflow as tf
from tensorflow import keras


class Inverse(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, first):
        self.first = first

    def __call__(self, step):
        return self.first / (1.0 + 0.1 * tf.cast(step, tf.float32))

    def get_config(self):
        return {"first": self.first}


def step_decay(epoch):
    return 0.1 * math.pow(0.5, epoch // 2)


def relative(epoch, lr):
    if epoch < 1:
        return lr
    return lr * 0.9


keras.utils.set_random_seed(7)
x = np.random.rand(64, 4).astype("float32")
y = x @ np.ones((4, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(Inverse(0.1)), loss="mse")
model.fit(x, y, epochs=2, verbose=0)
other = keras.Sequential([keras.layers.Dense(1)])
other.compile(optimizer=keras.optimizers.SGD(), loss="mse")
other.fit(x, y, epochs=3, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(step_decay)])
other.fit(x, y, epochs=2, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(relative),
                                                keras.callbacks.LearningRateScheduler(lambda epoch: 0.01)])
print("done")
