"""One callback instead of a list, in a variable and where fit() is called; data sets by name."""
import re

import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd


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

tf.keras.utils.set_random_seed(3)
pattern = re.compile(f"{'a'}+", flags=0)
x = np.random.rand(64, 6).astype("float32")
y = x.sum(1, keepdims=True) + len(pattern.findall("aaa"))
model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(4, activation="relu"),
                             tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01 * hvd.size())), loss="mse")
log = tf.keras.callbacks.CSVLogger("log.csv")
model.fit(share(x), share(y), batch_size=8, epochs=2, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()] + [*([log] if hvd.rank() == 0 else [])], verbose=2 if hvd.rank() == 0 else 0)
model.fit(share(x), share(y), batch_size=8, epochs=2, verbose=2 if hvd.rank() == 0 else 0,
          callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()] + [tf.keras.callbacks.EarlyStopping(monitor="loss", patience=1)])
model.fit(share(x), share(y), batch_size=8, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()] + [tf.keras.callbacks.EarlyStopping(monitor="loss")], verbose=1 if hvd.rank() == 0 else 0)
if hvd.rank() == 0:
    model.save_weights("one.weights.h5")
