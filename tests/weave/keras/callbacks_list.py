"""The functional interface with callbacks of every kind in a list that grows; the optimizer by its name."""
# not equal: dropout
import argparse
import os

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.callbacks import CSVLogger, EarlyStopping, ModelCheckpoint, ReduceLROnPlateau, TensorBoard


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
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
    model.compile("adam", loss="mse", metrics=["mae"])

    callbacks = [
        EarlyStopping(patience=3, restore_best_weights=True),
        ReduceLROnPlateau(factor=0.5, patience=1, min_lr=1e-5),
        ModelCheckpoint("best.h5", save_best_only=True),
    ]
    if args.log_dir:
        callbacks.append(TensorBoard(args.log_dir))
    callbacks.append(Report())
    csv = CSVLogger("log.csv")
    callbacks += [csv]
    model.fit(x, y, validation_split=0.2, epochs=args.epochs, callbacks=callbacks, verbose=2)
    model.load_weights("best.h5") if os.path.exists("best.h5") else None
    predictions = model.predict(x[:4])
    print("predictions", predictions.shape)


if __name__ == "__main__":
    main()
