from tensorflow.keras.callbacks import CSVLogger, EarlyStopping, ModelCheckpoint


def make(settings):
    found = [EarlyStopping(patience=3), ModelCheckpoint("best.h5", save_best_only=True)]
    if settings.epochs > 1:
        found.append(CSVLogger("log.csv"))
    return found
