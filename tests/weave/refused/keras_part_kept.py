"""For tf-distribute: a metric is updated outside the step, where there is one replica's part of the batch."""
# weave with: --target tf-distribute
import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).rand(64, 4).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64).batch(8)
model = tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
error = tf.keras.metrics.MeanAbsoluteError()


def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(inputs) - targets))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


for inputs, targets in data:
    train_step(inputs, targets)
    error.update_state(targets, model(inputs))  # refused: compute it in the step
print(float(error.result()))
