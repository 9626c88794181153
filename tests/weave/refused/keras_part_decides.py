"""For tf-distribute: the loss of a batch, computed outside the step, ends the training."""
# weave with: --target tf-distribute
import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).rand(64, 4).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64).batch(8)
w = tf.Variable(tf.zeros([4, 1]))
optimizer = tf.keras.optimizers.SGD(0.1)


def loss_of(inputs, targets):
    return tf.reduce_mean(tf.square(tf.matmul(inputs, w) - targets))


def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = loss_of(inputs, targets)
    optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))


for inputs, targets in data:
    train_step(inputs, targets)
    if loss_of(inputs, targets) < 0.01:  # refused: one replica's decision
        break
