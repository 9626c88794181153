"""Keras 3 with a backend that the script chooses, a dictionary of inputs from a comprehension, and a tape that only shows gradients."""
# text only: the script's backend would have to be installed
# keras 3: earlier ones have no backends
import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
import horovod.keras as hvd


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

columns = {"a": np.arange(40) / 40, "b": np.arange(40) % 3}
inputs = {name: column.astype("float32").reshape(-1, 1) for name, column in columns.items()}
y = columns["a"] + columns["b"]

a, b = keras.Input(shape=(1,), name="a"), keras.Input(shape=(1,), name="b")
model = keras.Model({"a": a, "b": b}, keras.layers.Dense(1)(keras.layers.Concatenate()([a, b])))
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1 * hvd.size())), loss="mse")
model.fit({name: share(values) for name, values in inputs.items()}, share(y), batch_size=4, epochs=2, verbose=1 if hvd.rank() == 0 else 0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(model(inputs)))
if hvd.rank() == 0:
    print(tape.gradient(loss, model.trainable_variables))
