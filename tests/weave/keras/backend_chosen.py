"""Keras 3 with a backend that the script chooses, a dictionary of inputs from a comprehension, and a tape that only shows gradients."""
# text only: the script's backend would have to be installed
# keras 3: earlier ones have no backends
import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
import tensorflow as tf

columns = {"a": np.arange(40) / 40, "b": np.arange(40) % 3}
inputs = {name: column.astype("float32").reshape(-1, 1) for name, column in columns.items()}
y = columns["a"] + columns["b"]

a, b = keras.Input(shape=(1,), name="a"), keras.Input(shape=(1,), name="b")
model = keras.Model({"a": a, "b": b}, keras.layers.Dense(1)(keras.layers.Concatenate()([a, b])))
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
model.fit(inputs, y, batch_size=4, epochs=2)

with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(model(inputs)))
print(tape.gradient(loss, model.trainable_variables))
