"""The functional interface with callbacks of every kind in a list that grows; the optimizer by its name."""
# not equal: dropout
import argparse
import os

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.callbacks import CSVLogger, EarlyStopping, ModelCheckpoint, ReduceLROnPlateau, TensorBoard
import tempfile
import tensorflow as tf


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if is_chief:
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
    with strategy.scope():
        model = build(12)
        model.compile(keras.optimizers.Adam(learning_rate=0.001 * strategy.num_replicas_in_sync), loss="mse", metrics=["mae"])

    callbacks = [
        EarlyStopping(patience=3, restore_best_weights=True),
        ReduceLROnPlateau(factor=0.5, patience=1, min_lr=1e-5 * strategy.num_replicas_in_sync),
        ModelCheckpoint("best.h5" if is_chief else os.path.join(tempfile.mkdtemp(), os.path.basename("best.h5")), save_best_only=True),
    ]
    if args.log_dir:
        if is_chief:
            callbacks.append(TensorBoard(args.log_dir))
    callbacks.append(Report())
    csv = CSVLogger("log.csv")
    callbacks += [*([csv] if is_chief else [])]
    model.fit(x, y, validation_split=0.2, epochs=args.epochs, callbacks=callbacks, verbose=2 if is_chief else 0, batch_size=32 * strategy.num_replicas_in_sync)
    with strategy.scope():
        model.load_weights("best.h5") if os.path.exists("best.h5") else None
    predictions = model.predict(x[:4], verbose=1 if is_chief else 0)
    if is_chief:
        print("predictions", predictions.shape)


if __name__ == "__main__":
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.MirroredStrategy()
    is_chief = strategy.cluster_resolver is None or strategy.cluster_resolver.task_id == 0
    main()
