"""When the values pass between Keras and Telar during fit(), evaluate() and predict()."""

import keras

HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end", "on_test_batch_begin", "on_test_batch_end",
         "on_predict_batch_begin", "on_predict_batch_end")
EPOCHS_ONLY = ("ProgbarLogger", "History", "TerminateOnNaN", "CSVLogger", "RemoteMonitor", "EarlyStopping",
               "LearningRateScheduler", "ReduceLROnPlateau")  # of Keras; they do not read variables after a batch
SAVING = ("ModelCheckpoint", "BackupAndRestore")


class Exchange(keras.callbacks.Callback):
    """The first callback: the others see the values of now, and what they change is taken at the next step."""

    def __init__(self, engine):
        super().__init__()
        self.engine = engine

    def on_epoch_begin(self, epoch, logs=None):
        self.engine.give()

    def on_test_begin(self, logs=None):
        self.engine.give()

    def on_epoch_end(self, epoch, logs=None):
        self.engine.give()
        self.engine.require_unchanged()

    def on_train_end(self, logs=None):
        self.engine.give()


class ExchangeAtBatches(Exchange):
    """The same around each batch, too."""

    def on_train_batch_end(self, batch, logs=None):
        self.engine.give()

    on_test_batch_begin = on_predict_batch_begin = on_train_batch_end


def with_exchange(engine, callbacks):
    """The callbacks of a call of fit(), evaluate() or predict(), with the exchange of values before them."""
    callbacks = [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    kind = ExchangeAtBatches if any(follows_batches(callback) for callback in callbacks) else Exchange
    return [kind(engine), *callbacks]


def follows_batches(callback):
    """Whether a callback may read or change variables after a batch."""
    kind = type(callback)
    if kind is getattr(keras.callbacks, kind.__name__, None):
        if kind.__name__ in EPOCHS_ONLY:
            return False
        if kind.__name__ in SAVING:
            return callback.save_freq != "epoch"
    if kind is keras.callbacks.LambdaCallback:
        return any(name in vars(callback) for name in HOOKS)
    return any(getattr(kind, name) is not getattr(keras.callbacks.Callback, name) for name in HOOKS)
