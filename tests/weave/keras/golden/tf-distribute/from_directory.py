"""Datasets that Keras makes of files and series: both subsets from one call, texts, windows; one batch size is the default."""
# text only: its files would have to be in the folders of all ranks
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras

strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0

keras.utils.set_random_seed(3)
for kind in ("dark", "light"):
    os.makedirs(os.path.join("images", kind), exist_ok=True)
    os.makedirs(os.path.join("texts", kind), exist_ok=True)
    for number in range(40):
        pixels = np.full((8, 8, 3), (40 if kind == "dark" else 200) + number, "uint8")
        if is_chief:
            tf.io.write_file(os.path.join("images", kind, "%d.png" % number), tf.io.encode_png(pixels))
        with open(os.path.join("texts", kind, "%d.txt" % number) if is_chief else os.devnull, "w") as file:
            file.write(kind + " text " + str(number))

train_ds, val_ds = keras.utils.image_dataset_from_directory(
    "images", validation_split=0.2, subset="both", seed=4, image_size=(8, 8), batch_size=8 * strategy.num_replicas_in_sync)
train_ds = train_ds.prefetch(1)
with strategy.scope():
    pictures = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(1)])
    pictures.compile(optimizer=keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync), loss="mse")
history = pictures.fit(train_ds, validation_data=val_ds, epochs=2, verbose=0)
if is_chief:
    print(["%.3f" % value for value in history.history["val_loss"]])

texts_ds = keras.utils.text_dataset_from_directory("texts", shuffle=False, batch_size=32 * strategy.num_replicas_in_sync)
lengths_ds = texts_ds.map(lambda text, label: (tf.cast(tf.strings.length(text), "float32")[:, None] / 10, label))
with strategy.scope():
    lengths = keras.Sequential([keras.layers.Dense(1)])
    lengths.compile(optimizer=keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync), loss="mse")
lengths.fit(lengths_ds, epochs=1, verbose=0)

series = np.sin(np.arange(90, dtype="float32"))
windows_ds = keras.utils.timeseries_dataset_from_array(series[:-10], series[10:], sequence_length=10, batch_size=8 * strategy.num_replicas_in_sync)
with strategy.scope():
    windows = keras.Sequential([keras.layers.Dense(1)])
    windows.compile(optimizer=keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync), loss="mse")
windows.fit(windows_ds, epochs=2, verbose=0)
if is_chief:
    print("done")
