"""Trains neural networks in parallel: the engine of the command line `telar`, for programs in Python.

    import telar
    model = telar.load("m.telar")
    scores = model.predict(images)          # NumPy arrays, or anything with DLPack
    telar.train("job.yaml", output="runs/job", **{"strategy.replicas": 2})
    telar.predict("runs/job", images)

telar.torch takes PyTorch's modules. This module needs NumPy alone.
"""

import os
import sys

# The libraries of the native module must find its OpenMP functions before those that PyTorch loads for all: with two teams of
# threads, each would wait for the other's to sleep.
_flags = sys.getdlopenflags()
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
try:
    from telar._native import Error, strategies, version
except ImportError as error:
    if "libgomp" not in str(error) or "cannot open" not in str(error):
        raise
    raise ImportError("telar needs libgomp.so.1, GCC's library of OpenMP, which was not found; install it: Debian and Ubuntu have it "
                      "in the package libgomp1, Fedora in libgomp") from error
finally:
    sys.setdlopenflags(_flags)

from telar.group import Group, join
from telar.loaded import LoadedModel, load

__all__ = ["Error", "Group", "LoadedModel", "evaluate", "join", "load", "predict", "strategies", "train", "version"]
__version__ = version().split(" ")[0]


def __getattr__(name):
    """The functions of jobs, imported when one is used: the library's modules that start processes took a third of it."""
    if name not in ("evaluate", "predict", "train"):
        raise AttributeError(f"module 'telar' has no attribute '{name}'")
    from telar import run
    return getattr(run, name)
