"""A script trains one model with fit(), and another one in a loop of its own."""
import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).rand(64, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(x, y, epochs=2)

other = tf.keras.Sequential([tf.keras.Input(shape=(4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for inputs, targets in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(other(inputs) - targets))
    gradients = tape.gradient(loss, other.trainable_variables)
    optimizer.apply_gradients(zip(gradients, other.trainable_variables))  # refused: put them into two scripts
