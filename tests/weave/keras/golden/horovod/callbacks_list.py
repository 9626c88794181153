"""The functional interface with callbacks of every kind in a list that grows; the optimizer by its name."""
# not equal: dropout
import argparse
import os

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.callbacks import CSVLogger, EarlyStopping, ModelCheckpoint, ReduceLROnPlateau, TensorBoard
import horovod.tensorflow.keras as hvd
import tensorflow as tf


def share(values):
    # The same number of samples for each process; the remainder is left out.
    whole = len(values) // hvd.size() * hvd.size()
    return values[hvd.rank():whole:hvd.size()]


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if hvd.rank() == 0:
            print("epoch", epoch, sorted(logs))


def build(width):
    inputs = keras.Input(shape=(6,))
    hidden = layers.Dense(width, activation="relu")(inputs)
    hidden = layers.Dropout(0.1)(hidden)
    outputs = layers.Dense(1)(hidden)
    return keras.Model(inputs, outputs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--log-dir", default="logs")
    args = parser.parse_args()

    keras.utils.set_random_seed(1)
    x = np.random.rand(120, 6).astype("float32")
    y = x @ np.arange(6).astype("float32")
    model = build(12)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(learning_rate=0.001 * hvd.size())), loss="mse", metrics=["mae"])

    callbacks = [
        EarlyStopping(patience=3, restore_best_weights=True),
        ReduceLROnPlateau(factor=0.5, patience=1, min_lr=1e-5 * hvd.size()),
        *([ModelCheckpoint("best.h5", save_best_only=True)] if hvd.rank() == 0 else []),
    ]
    if args.log_dir:
        if hvd.rank() == 0:
            callbacks.append(TensorBoard(args.log_dir))
    callbacks.append(Report())
    csv = CSVLogger("log.csv")
    callbacks += [*([csv] if hvd.rank() == 0 else [])]
    model.fit(share(x), share(y), validation_split=0.2, epochs=args.epochs, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()] + callbacks, verbose=2 if hvd.rank() == 0 else 0)
    hvd.allreduce(0.0, name="barrier")
    model.load_weights("best.h5") if os.path.exists("best.h5") else None
    predictions = model.predict(x[:4], verbose=1 if hvd.rank() == 0 else 0)
    if hvd.rank() == 0:
        print("predictions", predictions.shape)


if __name__ == "__main__":
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    main()
