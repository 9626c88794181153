"""A project of modules: the model, the data (tf.data) and the callbacks are made in files of their own."""
import tensorflow as tf

import callbacks
import data
from models import classifier as build
from settings import Settings


def main():
    settings = Settings()
    tf.keras.utils.set_random_seed(settings.seed)
    train_ds, val_ds = data.load(settings.batch)
    model = build(settings.width)
    model.compile(optimizer=settings.optimizer(), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train_ds, validation_data=val_ds, epochs=settings.epochs, callbacks=callbacks.make(settings), verbose=2)
    print("test", model.evaluate(val_ds, verbose=0))
    model.save(settings.path)


if __name__ == "__main__":
    main()
