"""Trains neural networks in parallel: the engine of the command line `telar`, for programs in Python.

    import telar
    model = telar.load("m.telar")
    scores = model.predict(images)          # NumPy arrays, or anything with DLPack
    telar.train("job.yaml", **{"strategy.replicas": 2})

telar.torch takes PyTorch's modules. This module needs NumPy alone.
"""

from telar._native import Error, strategies, version
from telar.loaded import LoadedModel, load
from telar.run import train

__all__ = ["Error", "LoadedModel", "load", "strategies", "train", "version"]
__version__ = version().split(" ")[0]
