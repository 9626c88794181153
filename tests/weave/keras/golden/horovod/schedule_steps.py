"""Schedules that count steps: decay computed from the number of samples, and pieces with boundaries."""
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

tf.keras.utils.set_random_seed(1)
BATCH = 8
EPOCHS = 3
x = np.random.rand(96, 3).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")

steps = len(x) // BATCH * EPOCHS
decay = tf.keras.optimizers.schedules.PolynomialDecay(0.2 * hvd.size(), steps // hvd.size(), end_learning_rate=0.01 * hvd.size())
model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="relu"), tf.keras.layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate=decay, momentum=0.5)), loss="binary_crossentropy")
model.fit(share(x), share(y), batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("first", float(model.evaluate(x, y, verbose=0)))

pieces = tf.keras.optimizers.schedules.PiecewiseConstantDecay(boundaries=[12 // hvd.size(), 24 // hvd.size()], values=[0.1 * hvd.size(), 0.05 * hvd.size(), 0.01 * hvd.size()])
second = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid")])
second.compile(hvd.DistributedOptimizer(tf.keras.optimizers.Adam(pieces)), "binary_crossentropy")
second.fit(share(x), share(y), batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("second", float(second.evaluate(x, y, verbose=0)))
