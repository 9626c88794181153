"""Datasets that Keras makes of files and series: both subsets from one call, texts, windows; one batch size is the default."""
# text only: its files would have to be in the folders of all ranks
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
import horovod.tensorflow.keras as hvd


def shard(dataset):
    # The same number of elements for each process; the remainder is left out.
    samples = int(dataset.cardinality())
    if samples == tf.data.UNKNOWN_CARDINALITY:
        samples = int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *sample: count + 1))
    if samples != tf.data.INFINITE_CARDINALITY:
        dataset = dataset.take(samples // hvd.size() * hvd.size())
    return dataset.shard(hvd.size(), hvd.rank())


hvd.init()
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

keras.utils.set_random_seed(3)
for kind in ("dark", "light"):
    os.makedirs(os.path.join("images", kind), exist_ok=True)
    os.makedirs(os.path.join("texts", kind), exist_ok=True)
    for number in range(40):
        pixels = np.full((8, 8, 3), (40 if kind == "dark" else 200) + number, "uint8")
        if hvd.rank() == 0:
            tf.io.write_file(os.path.join("images", kind, "%d.png" % number), tf.io.encode_png(pixels))
        with open(os.path.join("texts", kind, "%d.txt" % number) if hvd.rank() == 0 else os.devnull, "w") as file:
            file.write(kind + " text " + str(number))

hvd.allreduce(0.0, name="barrier")
train_ds, val_ds = keras.utils.image_dataset_from_directory(
    "images", validation_split=0.2, subset="both", seed=4, image_size=(8, 8), batch_size=8)
train_ds = shard(train_ds).prefetch(1)
pictures = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(1)])
pictures.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), loss="mse")
history = pictures.fit(train_ds, validation_data=val_ds, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print(["%.3f" % value for value in history.history["val_loss"]])

hvd.allreduce(0.0, name="barrier")
texts_ds = shard(keras.utils.text_dataset_from_directory("texts", shuffle=False))
lengths_ds = texts_ds.map(lambda text, label: (tf.cast(tf.strings.length(text), "float32")[:, None] / 10, label))
lengths = keras.Sequential([keras.layers.Dense(1)])
lengths.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), loss="mse")
lengths.fit(lengths_ds, epochs=1, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

series = np.sin(np.arange(90, dtype="float32"))
windows_ds = shard(keras.utils.timeseries_dataset_from_array(series[:-10], series[10:], sequence_length=10, batch_size=8))
windows = keras.Sequential([keras.layers.Dense(1)])
windows.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), loss="mse")
windows.fit(windows_ds, epochs=2, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
if hvd.rank() == 0:
    print("done")
