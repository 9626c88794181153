"""Optimizers from a configuration; training goes on from weights that were saved; epochs continued."""
# keras 3 for tf.distribute: Keras 2 cannot load .weights.h5 of a model with metrics under a strategy (TypeError in assign)
import os

import numpy as np
from tensorflow import keras
import horovod.tensorflow.keras as hvd
import tensorflow as tf


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

keras.utils.set_random_seed(21)
x = np.random.rand(64, 4).astype("float32")
y = x.sum(axis=1)
options = {"class_name": "SGD", "config": {"learning_rate": 0.02 * hvd.size(), "momentum": 0.5}}
model = keras.Sequential([keras.layers.Dense(5, activation="relu", input_shape=(4,)), keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.get(options)), loss="mse", metrics=[keras.metrics.MeanAbsoluteError()])
checkpoint = keras.callbacks.ModelCheckpoint("{epoch:02d}.weights.h5", save_weights_only=True)
model.fit(share(x), share(y), batch_size=8, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), *([checkpoint] if hvd.rank() == 0 else [])])
hvd.allreduce(0.0, name="barrier")
if os.path.exists("02.weights.h5"):
    model.load_weights("02.weights.h5")
common = dict(batch_size=8, verbose=0)
model.fit(share(x), share(y), initial_epoch=2, epochs=4, batch_size=8, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
with open("result.txt" if hvd.rank() == 0 else os.devnull, "w") as file:
    file.write("%.4f" % model.evaluate(x, y, **common)[0])
json_text = model.to_json()
with open("model.json" if hvd.rank() == 0 else os.devnull, "w") as file:
    file.write(json_text)
