"""A subclass of an optimizer that sets its rate itself, where it cannot be multiplied once."""
import numpy as np
import tensorflow as tf


class Slow(tf.keras.optimizers.SGD):
    def __init__(self, **options):  # refused: give it a parameter learning_rate
        super().__init__(learning_rate=0.01, **options)


model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(optimizer=Slow(), loss="mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)))
