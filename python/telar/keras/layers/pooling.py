"""Pooling, by windows and over all places."""

import keras
import numpy

from telar.keras.layers.convolutions import borders, image, of_image, two
from telar.keras.values import Value
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates
LOWEST = -3.4028234663852886e38


def window(layer):
    kernel = two(layer.pool_size, 1)
    return kernel, two(layer.strides if layer.strides is not None else layer.pool_size, 1)


def pooled(low, name, x, kernel, stride):
    options = {"kernel": kernel, "stride": stride, "padding": [0, 0]}
    shape = [(size - k) // s + 1 for size, k, s in zip(x.shape[2:], kernel, stride)]
    return Value(low.emit(name, [x], options), (*x.shape[:2], *shape))


def around(layer, x):
    """(before, after) of each axis by 'same'."""
    kernel, stride = window(layer)
    return borders(layer, x.shape[2:], kernel, stride, [1, 1])


@translates("MaxPooling1D", "MaxPooling2D")
def max_pooling(low, layer, x):
    images = image(low, layer, x)
    for axis, (before, after) in enumerate(around(layer, images), 2):
        images = low.padded(images, axis, before, after, LOWEST) if before or after else images
    return of_image(low, layer, pooled(low, "max_pool", images, *window(layer)), low.any(x).rank)


@translates("AveragePooling1D", "AveragePooling2D")
def average_pooling(low, layer, x):
    """The border of 'same' does not count in the mean. With PyTorch, Keras repeats one that is not symmetric."""
    images = image(low, layer, x)
    sizes, (kernel, stride), border = images.shape[2:], window(layer), around(layer, images)
    repeats = keras.backend.backend() == "torch" and any(before != after for before, after in border)
    for axis, (before, after) in enumerate(border, 2):
        if repeats:
            images = low.joined([*[low.part(images, axis, 0, 1)] * before, images,
                                 *[low.part(images, axis, images.shape[axis] - 1, images.shape[axis])] * after], axis)
        elif before or after:
            images = low.padded(images, axis, before, after)
    y = pooled(low, "average_pool", images, kernel, stride)
    if not repeats and any(sum(sides) for sides in border):
        counts = [numpy.array([min(i * s - before + k, size) - max(i * s - before, 0) for i in range(extent)])
                  for extent, size, k, s, (before, _) in zip(y.shape[2:], sizes, kernel, stride, border)]
        shares = kernel[0] * kernel[1] / (counts[0][:, None] * counts[1][None, :])
        y = low.mul(y, shares[None, None])
    return of_image(low, layer, y, low.any(x).rank)


def over_all(name):
    def translate(low, layer, x):
        x = low.number(x)
        return low.reduced(name, x, places(layer, x), layer.keepdims)

    return translate


def places(layer, x):
    """The axes that are neither of samples nor of channels."""
    first = 2 if layer.data_format == "channels_first" else 1
    return range(first, first + x.rank - 2)


translates("GlobalAveragePooling2D")(over_all("reduce_mean"))
translates("GlobalMaxPooling1D", "GlobalMaxPooling2D")(over_all("reduce_max"))


@translates("GlobalAveragePooling1D")
def average_of_steps(low, layer, x, mask=None):
    """The mean of the steps that count. If none does it is not a number, as with Keras."""
    x = low.number(x)
    if mask is None:
        return low.reduced("reduce_mean", x, places(layer, x), layer.keepdims)
    steps, = places(layer, x)
    truth = low.truth(mask)
    truth = low.reshaped(truth, tuple(extent if axis in (0, steps) else 1 for axis, extent in enumerate(x.shape)))
    total, count = (low.reduced("reduce_sum", one, [steps], layer.keepdims) for one in (low.mul(x, truth), truth))
    return low.mul(total, low.power(count, -1.0))
