"""Keras's models on Telar's engine.

    import telar.keras as tk
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    tk.use(model, strategy="mirrored", replicas=2)
    model.fit(x, y, batch_size=64, epochs=5, validation_split=0.1)      # fit, evaluate and predict are Keras's
    tk.save(model, "m.telar")       # for `telar train`, and for telar.load() without Keras
"""

from telar.keras.engine import release, save, use
from telar.keras.values import Refusal

__all__ = ["Refusal", "release", "save", "use"]
