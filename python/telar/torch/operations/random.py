"""Random operations. Their draws depend on the sample, so that they are the same under any division of a batch."""

import torch

from telar.registry import Registry
from telar.torch.operations import elementwise, shaping
from telar.torch.operations.elementwise import scaled
from telar.torch.values import Uniform, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates
HALF = 0.5  # what torch.rand gives in a check


def dropped(low, x, rate):
    """Dropout of a tensor one of whose axes is the samples, or has several items for each."""
    if low.check or rate == 0:
        return x
    shape, order = of_samples(low, x.shape)
    first = shaping.reshaped(low, shaping.permuted(low, x, order), shape)
    kept = Value(low.emit("dropout", [first, *low.random_inputs()], {"rate": float(rate)}), shape)
    return back(low, kept, x.shape, order)


def of_samples(low, shape):
    """The shape [N, items...] that a tensor has as one of samples, and the order of its axes then."""
    depends = [axis for axis, extent in enumerate(shape) if not isinstance(extent, int)]
    if len(depends) != 1:
        raise low.refusal("draws numbers for a tensor that does not have the samples in one of its axes, so they would be the same "
                          "for all samples")
    axis = depends[0]
    order = [axis, *[i for i in range(len(shape)) if i != axis]]
    rest = [shape[i] for i in order[1:]]
    return (low.batch.shape[0], *([] if low.is_batch(shape[axis]) else [low.items([shape[axis]])]), *rest), order


def back(low, value, shape, order):
    """A tensor of this shape again."""
    rows = shaping.reshaped(low, value, tuple(shape[axis] for axis in order))
    return shaping.permuted(low, rows, [order.index(axis) for axis in range(len(shape))])


@translates("dropout")
def dropout(low, p, train, input=None, self=None):
    x = low.value(self if input is None else input)
    return dropped(low, x, p) if train else x


@translates("feature_dropout")
def feature_dropout(low, input, p, train):
    """Whole channels."""
    x = low.value(input)
    if not train or low.check or p == 0:
        return x
    mask = dropped(low, low.ones((*x.shape[:2], *[1] * (x.rank - 2))), p)
    return low.result("mul", [x, mask])


@translates("randn_like", "randn")
def normal(low, self=None, **_):
    """Standard normal numbers."""
    shape = tuple(low.form().shape)
    if low.check:
        return low.ones(shape)
    drawn, order = of_samples(low, shape)
    return back(low, Value(low.emit("random_normal", [*low.random_inputs()], {"shape": list(drawn[1:])}), drawn), shape, order)


@translates("rand", "rand_like")
def evenly(low, self=None, **_):
    """Numbers from 0 to 1 without 1: the distribution function of normal ones."""
    shape = tuple(low.form().shape)
    if low.check:
        return low.ones(shape, HALF)
    drawn = scaled(low, normal(low), 0.5**0.5)
    number = scaled(low, elementwise.add(low, Value(low.emit("erf", [drawn]), shape), 1.0), 0.5)
    return Value(low.emit("clamp", [number], {"least": 0.0, "most": 1 - 2.0**-24}), shape)


@translates("uniform")
def evenly_between(low, self, **limits):
    """Numbers from a limit to another."""
    least, most = float(limits.get("from", 0.0)), float(limits.get("to", 1.0))
    return elementwise.add(low, scaled(low, low.value(evenly(low)), most - least), least)


@translates("normal_")
def normal_of(low, self, mean=0.0, std=1.0, generator=None):
    return elementwise.add(low, scaled(low, low.value(normal(low)), std), float(mean))


@translates("exponential")
def exponential(low, self, lambd=1.0, generator=None):
    """−log(1 − u) / λ of uniform u."""
    if low.check:
        return low.ones(tuple(low.form().shape))
    minus = scaled(low, evenly(low), -1)
    return scaled(low, Value(low.emit("log1p", [minus]), minus.shape), -1 / lambd)


@translates("bernoulli_", "bernoulli")
def bernoulli(low, self, p=0.5, generator=None):
    """1 with probability p, else 0."""
    ones = low.ones(tuple(low.form().shape))
    if low.check:
        return ones
    return scaled(low, dropped(low, ones, 1 - p), p)


def uniform(*names, number):
    @translates(*names)
    def translate(low, **arguments):
        form = low.form()
        if all(isinstance(extent, int) for extent in form.shape):
            return torch.full(form.shape, number(arguments), dtype=form.dtype)
        return Uniform(number(arguments), tuple(form.shape))

    return translate


uniform("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", number=lambda _: 0.0)
uniform("ones", "ones_like", "new_ones", number=lambda _: 1.0)
uniform("full", "full_like", "new_full", number=lambda arguments: float(arguments["fill_value"]))
