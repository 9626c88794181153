"""Layers that normalise."""

import math

from telar.keras.layers.regularisation import is_training
from telar.keras.values import Value
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


def scale_and_shift(low, layer, extent):
    """gamma and beta, [extent], with ones and zeros for those that are left out."""
    gamma = low.parameter(layer.gamma) if layer.gamma is not None else low.ones([extent], 1.0)
    beta = low.parameter(layer.beta) if layer.beta is not None else low.ones([extent], 0.0)
    return gamma, beta


@translates("BatchNormalization")
def batch_normalization(low, layer, x, training=None, mask=None):
    """Keras's moving variance is that of the batch itself, without the correction for a sample."""
    if layer.renorm:
        raise low.refusal("has renorm")
    x = low.number(x)
    axis = layer.axis % x.rank
    others = [i for i in range(1, x.rank) if i != axis]
    order = (0, axis, *others)
    x = low.ordered(x, order)
    channels = x.shape[axis]
    held = Value(x.id, x.held)
    if x.rank not in (2, 4):
        held = low.reshaped(held, (None, channels, held.shape[2], math.prod(held.shape[3:])))
    gamma, beta = (low.parameter(v) if v is not None else low.ones([channels], other)
                   for v, other in ((layer.gamma, 1.0), (layer.beta, 0.0)))
    epsilon = {"epsilon": float(layer.epsilon)}
    if is_training(low, training) and layer.trainable:
        if mask is not None:
            raise low.refusal("takes its statistics of the steps that a mask leaves, whose number is that of the whole batch; normalise by "
                              "LayerNormalization, or before the layer that makes the mask")
        y, *moving, _ = low.emit("batch_norm", [held, gamma, beta], epsilon | {"biased": True}, which=None)
        if low.is_training:
            for variable, id in zip((layer.moving_mean, layer.moving_variance), moving):
                low.add_statistic(variable, Value(id, (channels,)), layer.momentum)
        else:
            raise low.refusal("normalises by the samples of a batch in evaluation, too (training=True)")
    else:
        y = low.emit("batch_norm_inference", [held, gamma, beta, low.parameter(layer.moving_mean),
                                              low.parameter(layer.moving_variance)], epsilon)
    result = Value(y, held.shape)
    if x.rank not in (2, 4):
        result = low.reshaped(result, x.held)
    return Value(result.id, x.shape, order=order)


@translates("LayerNormalization")
def layer_normalization(low, layer, x):
    x = low.plain(x)
    axes = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    if getattr(layer, "rms_scaling", False):
        raise low.refusal("has rms_scaling")
    if sorted(axis % x.rank for axis in axes) != list(range(x.rank - len(axes), x.rank)):
        raise low.refusal("normalises along other axes than the last ones")
    extent = math.prod(x.shape[-len(axes):])
    gamma, beta = scale_and_shift(low, layer, extent)
    gamma, beta = (low.reshaped(v, (extent,)) for v in (gamma, beta))
    flat = low.reshaped(x, (*x.shape[:-len(axes)], extent))
    y = Value(low.emit("layer_norm", [flat, gamma, beta], {"epsilon": float(layer.epsilon)}), flat.shape)
    return low.reshaped(y, x.shape)


@translates("GroupNormalization")
def group_normalization(low, layer, x):
    """Over the channels of a group and all places."""
    x = low.number(x)
    axis = layer.axis % x.rank
    order = (0, axis, *[i for i in range(1, x.rank) if i != axis])
    x = low.ordered(x, order)
    channels = x.shape[axis]
    groups = channels if layer.groups == -1 else layer.groups
    extent = channels // groups * math.prod(x.held[2:])
    flat = low.reshaped(Value(x.id, x.held), (None, groups, extent))
    ones, zeros = low.ones([extent], 1.0), low.ones([extent], 0.0)
    y = Value(low.emit("layer_norm", [flat, ones, zeros], {"epsilon": float(layer.epsilon)}), flat.shape)
    y = low.reshaped(y, x.held)
    shape = (1, channels, *[1] * (x.rank - 2))
    if layer.gamma is not None:
        y = low.mul(y, low.reshaped(low.parameter(layer.gamma), shape))
    if layer.beta is not None:
        y = low.add(y, low.reshaped(low.parameter(layer.beta), shape))
    return Value(y.id, x.shape, order=order)


@translates("UnitNormalization")
def unit_normalization(low, layer, x):
    axes = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    squares = low.reduced("reduce_sum", low.mul(x, x), axes, keepdims=True)
    return low.mul(x, low.power(low.unary("clamp", squares, {"least": 1e-12, "most": 3.4e38}), -0.5))


@translates("RMSNormalization")
def rms_normalization(low, layer, x):
    x = low.plain(x)
    axes = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    if [axis % x.rank for axis in axes] != [x.rank - 1]:
        raise low.refusal("normalises along another axis than the last one")
    squares = low.reduced("reduce_mean", low.mul(x, x), [x.rank - 1], keepdims=True)
    normal = low.mul(x, low.power(low.add(squares, float(layer.epsilon)), -0.5))
    return low.mul(normal, low.parameter(layer.scale))
