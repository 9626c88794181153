"""A subclass of an optimizer whose own parameter would be lost when Horovod creates its optimizer."""
import numpy as np
import tensorflow as tf


class Scaled(tf.keras.optimizers.SGD):
    def __init__(self, learning_rate=0.1,
                 factor=2.0):  # refused: give this optimizer's class a get_config() method
        super().__init__(learning_rate=learning_rate)
        self.factor = factor


model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(optimizer=Scaled(factor=3.0), loss="mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)))
