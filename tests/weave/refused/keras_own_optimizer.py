"""A loop with a tape applies an optimizer of the script's own."""
import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).rand(64, 4).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64).batch(8)
w = tf.Variable(tf.zeros([4, 1]))


class Descent:
    def __init__(self, rate):
        self.rate = rate

    def apply_gradients(self, pairs):
        for gradient, variable in pairs:
            variable.assign_sub(self.rate * gradient)


optimizer = Descent(0.1)  # refused: an optimizer of the script's own
for inputs, targets in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, w) - targets))
    optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))
