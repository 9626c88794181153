"""Layers that draw numbers in training. The draws are Telar's, by sample."""

import math

from telar.keras.values import Value
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


def is_training(low, training):
    return low.training if training is None else bool(training)


@translates("Dropout")
def dropout(low, layer, x, training=None):
    if layer.noise_shape is not None:
        raise low.refusal("has a noise_shape; SpatialDropout drops whole channels")
    return low.dropped(x, layer.rate) if is_training(low, training) else x


@translates("SpatialDropout1D", "SpatialDropout2D")
def spatial_dropout(low, layer, x, training=None):
    """Whole channels."""
    x = low.number(x)
    if not is_training(low, training) or low.check or layer.rate == 0:
        return x
    channels = 1 if getattr(layer, "data_format", "channels_last") == "channels_first" else x.rank - 1
    shape = [extent if axis in (0, channels) else 1 for axis, extent in enumerate(x.shape)]
    return low.mul(x, low.dropped(low.ones(shape, 1.0, x.order), layer.rate))


def normal(low, x):
    """Standard normal numbers for each element of x."""
    x = low.number(x)
    if x.held[0] is not None:
        raise low.refusal("draws numbers for a tensor whose axis 0 is not the samples")
    id = low.emit("random_normal", [*low.random_inputs()], {"shape": list(x.held[1:])})
    return Value(id, x.shape, order=x.order)


@translates("GaussianNoise")
def gaussian_noise(low, layer, x, training=None):
    if not is_training(low, training) or low.check or layer.stddev == 0:
        return x
    return low.add(x, low.scaled(normal(low, x), layer.stddev))


@translates("GaussianDropout")
def gaussian_dropout(low, layer, x, training=None):
    if not is_training(low, training) or low.check or layer.rate == 0:
        return x
    deviation = math.sqrt(layer.rate / (1.0 - layer.rate))
    return low.mul(x, low.add(low.scaled(normal(low, x), deviation), 1.0))
