"""Trains neural networks in parallel: the engine of the command line `telar`, for programs in Python.

    import telar
    model = telar.load("m.telar")
    scores = model.predict(images)          # NumPy arrays, or anything with DLPack

telar.torch takes PyTorch's modules. This module needs NumPy alone.
"""

from telar._native import Error, strategies, version
from telar.loaded import LoadedModel, load

__all__ = ["Error", "LoadedModel", "load", "strategies", "version"]
__version__ = version().split(" ")[0]
