"""What scripts use most of torchvision, where it is not installed: `telar weave --verify --fake-data`. The data sets
are random (telar_verify/fakes), the models have random weights."""
import sys

from telar_verify import fakes

from . import datasets, models, transforms, utils

__version__ = "0.0 (telar's stand-in)"
fakes.prepare(sys.modules[__name__])
