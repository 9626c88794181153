"""Schedules that count steps: decay computed from the number of samples, and pieces with boundaries."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
BATCH = 8
EPOCHS = 3
x = np.random.rand(96, 3).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")

steps = len(x) // BATCH * EPOCHS
decay = tf.keras.optimizers.schedules.PolynomialDecay(0.2, steps, end_learning_rate=0.01)
model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="relu"), tf.keras.layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=tf.keras.optimizers.SGD(learning_rate=decay, momentum=0.5), loss="binary_crossentropy")
model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
print("first", float(model.evaluate(x, y, verbose=0)))

pieces = tf.keras.optimizers.schedules.PiecewiseConstantDecay(boundaries=[12, 24], values=[0.1, 0.05, 0.01])
second = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid")])
second.compile(tf.keras.optimizers.Adam(pieces), "binary_crossentropy")
second.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
print("second", float(second.evaluate(x, y, verbose=0)))
