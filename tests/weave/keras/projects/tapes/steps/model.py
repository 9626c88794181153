import tensorflow as tf


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first = tf.keras.layers.Dense(8, activation="relu")
        self.second = tf.keras.layers.Dense(1)

    def call(self, inputs):
        return self.second(self.first(inputs))
