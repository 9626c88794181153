"""One callback instead of a list, in a variable and where fit() is called; data sets by name."""
import re

import numpy as np
import tensorflow as tf
import os
import tempfile

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

tf.keras.utils.set_random_seed(3)
pattern = re.compile(f"{'a'}+", flags=0)
x = np.random.rand(64, 6).astype("float32")
y = x.sum(1, keepdims=True) + len(pattern.findall("aaa"))
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(4, activation="relu"),
                                 tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync), loss="mse")
log = tf.keras.callbacks.CSVLogger("log.csv")
model.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, callbacks=[*([log] if is_chief else [])], verbose=2 if is_chief else 0)
model.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=2 if is_chief else 0,
          callbacks=[tf.keras.callbacks.EarlyStopping(monitor="loss", patience=1)])
model.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, callbacks=[tf.keras.callbacks.EarlyStopping(monitor="loss")], verbose=1 if is_chief else 0)
model.save_weights("one.weights.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("one.weights.h5")))
