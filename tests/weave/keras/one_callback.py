"""One callback instead of a list, in a variable and where fit() is called; data sets by name."""
import re

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
pattern = re.compile(f"{'a'}+", flags=0)
x = np.random.rand(64, 6).astype("float32")
y = x.sum(1, keepdims=True) + len(pattern.findall("aaa"))
model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(4, activation="relu"),
                             tf.keras.layers.Dense(1)])
model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
log = tf.keras.callbacks.CSVLogger("log.csv")
model.fit(x, y, batch_size=8, epochs=2, callbacks=log, verbose=2)
model.fit(x, y, batch_size=8, epochs=2, verbose=2,
          callbacks=tf.keras.callbacks.EarlyStopping(monitor="loss", patience=1))
model.fit(x, y, batch_size=8, callbacks=tf.keras.callbacks.EarlyStopping(monitor="loss"))
model.save_weights("one.weights.h5")
