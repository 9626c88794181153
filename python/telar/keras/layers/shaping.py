"""Layers that move elements."""

import math

from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


@translates("Flatten")
def flatten(low, layer, x):
    """The elements in Keras's order: channels last."""
    x = low.any(x)
    if getattr(layer, "data_format", "channels_last") == "channels_first" and x.rank > 2:
        x = low.permuted(x, [0, *range(2, x.rank), 1])
    return low.reshaped(x, (None, math.prod(x.shape[1:])))


@translates("Reshape")
def reshape(low, layer, x):
    x = low.any(x)
    elements = math.prod(x.shape[1:])
    known = math.prod(extent for extent in layer.target_shape if extent != -1)
    return low.reshaped(x, (None, *(elements // known if extent == -1 else extent for extent in layer.target_shape)))


@translates("Permute")
def permute(low, layer, x):
    return low.permuted(x, [0, *layer.dims])


@translates("RepeatVector")
def repeat_vector(low, layer, x):
    x = low.plain(x)
    one = low.reshaped(x, (None, 1, x.shape[1]))
    return low.expanded(one, (None, layer.n, x.shape[1]))


def first_space(layer):
    """The first axis that is neither of samples nor of channels."""
    return 2 if getattr(layer, "data_format", "channels_last") == "channels_first" else 1


@translates("ZeroPadding1D", "ZeroPadding2D")
def zero_padding(low, layer, x):
    x = low.number(x)
    padding = layer.padding if isinstance(layer.padding[0], (tuple, list)) else [layer.padding]
    for axis, (before, after) in enumerate(padding, first_space(layer)):
        x = low.padded(x, axis, before, after) if before or after else x
    return x


@translates("Cropping1D", "Cropping2D")
def cropping(low, layer, x):
    x = low.number(x)
    amounts = layer.cropping if isinstance(layer.cropping[0], (tuple, list)) else [layer.cropping]
    for axis, (before, after) in enumerate(amounts, first_space(layer)):
        x = low.part(x, axis, before, x.shape[axis] - after) if before or after else x
    return x


@translates("UpSampling1D", "UpSampling2D")
def up_sampling(low, layer, x):
    """Each item several times."""
    if getattr(layer, "interpolation", "nearest") != "nearest":
        raise low.refusal(f"interpolates by '{layer.interpolation}'; Telar repeats items, as 'nearest' does")
    x = low.number(x)
    sizes = [layer.size] if isinstance(layer.size, int) else list(layer.size)
    axes = [first_space(layer) + i for i in range(len(sizes))]
    if x.rank == 4:
        x = low.ordered(x, [0, first_channel(layer, x.rank), *axes])
    return repeated(low, x, dict(zip(axes, sizes)))


def first_channel(layer, rank):
    return 1 if getattr(layer, "data_format", "channels_last") == "channels_first" else rank - 1


def repeated(low, x, times):
    """x with each item of some axes several times, in the order in which it is held."""
    from telar.keras.values import Value

    apart, factors, joined = [], [], []
    for axis in x.order:
        factor = times.get(axis, 1)
        apart += [x.shape[axis], 1]
        factors += [1, factor]
        joined.append(None if x.shape[axis] is None else x.shape[axis] * factor)
    held = low.reshaped(Value(x.id, x.held), apart)
    held = low.reshaped(low.mul(held, low.ones(factors)), joined)
    shape = [None] * x.rank
    for extent, axis in zip(joined, x.order):
        shape[axis] = extent
    return Value(held.id, tuple(shape), order=x.order)
