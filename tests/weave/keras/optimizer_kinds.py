"""Optimizers under other names (tf.optimizers) and subclasses of optimizers, whose rates are arguments or defaults."""
import numpy as np
import tensorflow as tf
from tensorflow import keras

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
    model.compile(optimizer=optimizer, loss=tf.losses.MeanSquaredError())
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    print("%.4f" % model.evaluate(x, y, verbose=0))


train(tf.optimizers.SGD(0.05))
train(Plain(0.04))
train(Plain())
train(WithDefault())
