"""Optimizers from a configuration; training goes on from weights that were saved; epochs continued."""
# keras 3 for tf.distribute: Keras 2 cannot load .weights.h5 of a model with metrics under a strategy (TypeError in assign)
import os

import numpy as np
from tensorflow import keras
import tempfile
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

keras.utils.set_random_seed(21)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1)
options = {"class_name": "SGD", "config": {"learning_rate": 0.02 * strategy.num_replicas_in_sync, "momentum": 0.5}}
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(5, activation="relu", input_shape=(4,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.get(options), loss="mse", metrics=[keras.metrics.MeanAbsoluteError()])
checkpoint = keras.callbacks.ModelCheckpoint("{epoch:02d}.weights.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("{epoch:02d}.weights.h5")), save_weights_only=True)
model.fit(x, y, batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=0, callbacks=[checkpoint])
with strategy.scope():
    if os.path.exists("02.weights.h5"):
        model.load_weights("02.weights.h5")
common = dict(batch_size=8, verbose=0)
model.fit(x, y, initial_epoch=2, epochs=4, batch_size=8 * strategy.num_replicas_in_sync, verbose=0, callbacks=None)
with open("result.txt" if is_chief else os.devnull, "w") as file:
    file.write("%.4f" % model.evaluate(x, y, **common)[0])
json_text = model.to_json()
with open("model.json" if is_chief else os.devnull, "w") as file:
    file.write(json_text)
