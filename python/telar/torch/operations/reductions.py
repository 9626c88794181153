"""Sums, means and maxima; and what depends on all elements along an axis."""

import math

import torch

from telar.registry import Registry
from telar.torch.operations.elementwise import TRANSLATIONS as TRANSLATIONS_OF_ELEMENTS
from telar.torch.operations import shaping
from telar.torch.operations.elementwise import scaled
from telar.torch.values import Total, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates


def axes_of(value, dim):
    """All axes, or those given, from 0."""
    if dim is None or dim == []:
        return list(range(value.rank))
    return sorted(axis % max(value.rank, 1) for axis in ([dim] if isinstance(dim, int) else dim))


def total_of(low, x, reduction=Total.MEAN):
    """The sum or mean of all elements, which is one over the samples; of what does not depend on them, itself."""
    items = low.items(x.shape)
    if items is None:
        name = "reduce_mean" if reduction is Total.MEAN else "reduce_sum"
        return Value(low.emit(name, [x], {"axes": list(range(x.rank)), "keep_dims": False}), ()) if x.rank else x
    total = Value(low.emit("reduce_sum", [x], {"axes": list(range(x.rank)), "keep_dims": False}), (), False, reduction)
    low.summands[total.id] = [(lambda: x, 1.0)]
    return scaled(low, total, 1 / items) if reduction is Total.MEAN else total


def reduce(low, name, x, dim, keepdim):
    value = low.value(x)
    axes = axes_of(value, dim)
    depends = [axis for axis in axes if not isinstance(value.shape[axis], int)]
    if not depends:
        if not axes:
            return value
        return low.like(low.emit(name, [value], {"axes": axes, "keep_dims": bool(keepdim)}))
    if len(axes) < value.rank or keepdim or name == "reduce_max":
        raise low.refusal("reduces the axis of the samples, so a sample depends on others")
    return total_of(low, value, Total.MEAN if name == "reduce_mean" else Total.SUM)


@translates("sum")
def total(low, self, dim=None, keepdim=False, dtype=None):
    return reduce(low, "reduce_sum", self, dim, keepdim)


@translates("mean")
def mean(low, self, dim=None, keepdim=False, dtype=None):
    return reduce(low, "reduce_mean", self, dim, keepdim)


@translates("amax")
def amax(low, self, dim=(), keepdim=False):
    return reduce(low, "reduce_max", self, list(dim), keepdim)


@translates("amin")
def amin(low, self, dim=(), keepdim=False):
    return scaled(low, reduce(low, "reduce_max", scaled(low, low.value(self), -1), list(dim), keepdim), -1)


def least(low, self, dim=None, keepdim=False, other=None):
    """The least elements along an axis, or of two tensors."""
    if other is not None:
        return TRANSLATIONS_OF_ELEMENTS["minimum"](low, self, other)
    return scaled(low, reduce(low, "reduce_max", scaled(low, low.value(self), -1), dim, keepdim), -1)


def greatest(low, self, dim=None, keepdim=False, other=None):
    """The greatest elements along an axis, or of two tensors."""
    if other is not None:
        return TRANSLATIONS_OF_ELEMENTS["maximum"](low, self, other)
    return reduce(low, "reduce_max", self, dim, keepdim)


@translates("var", "std")
def variance(low, self, dim=None, unbiased=True, correction=None, keepdim=False):
    value = low.value(self)
    axes = axes_of(value, dim)
    if any(not isinstance(value.shape[axis], int) for axis in axes):
        raise low.refusal("reduces the axis of the samples, so a sample depends on others")
    count = math.prod(value.shape[axis] for axis in axes)
    removed = (1 if unbiased else 0) if correction is None else correction
    centre = low.emit("reduce_mean", [value], {"axes": axes, "keep_dims": True})
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(value.shape))
    difference = Value(low.emit("add", [value, scaled(low, Value(centre, shape), -1)]), value.shape)
    squares = Value(low.emit("mul", [difference, difference]), value.shape)
    sums = low.like(low.emit("reduce_sum", [squares], {"axes": axes, "keep_dims": bool(keepdim)}))
    result = scaled(low, sums, 1 / (count - removed))
    return low.result("pow", [result], {"exponent": 0.5}) if low.operation().startswith("std") else result


@translates("var_mean", "std_mean")
def variance_and_mean(low, self, dim=None, unbiased=True, correction=None, keepdim=False):
    spread = variance(low, self, dim, unbiased, correction, keepdim)
    return [spread, reduce(low, "reduce_mean", self, dim, keepdim)]


@translates("linalg_vector_norm", "norm")
def norm(low, self, ord=2, dim=None, keepdim=False, dtype=None, p=2):
    value, order = low.value(self), p if low.operation() == "norm" else ord
    if order != 2:
        return other_norm(low, value, float(order), dim, keepdim)
    squares = Value(low.emit("mul", [value, value]), value.shape)
    sums = reduce(low, "reduce_sum", squares, dim, keepdim)
    if sums.total:
        raise low.refusal("is the norm over all samples, which is not a sum over them")
    return root(low, sums, 0.5)


def other_norm(low, value, order, dim, keepdim):
    """Σ|x|^p to the power of 1/p, or the greatest or least |x|."""
    elements = TRANSLATIONS_OF_ELEMENTS
    magnitudes = elements["abs"](low, value)
    if math.isinf(order):
        return (amax if order > 0 else amin)(low, magnitudes, axes_of(value, dim), keepdim)
    if order <= 0:
        raise low.refusal("counts elements, or has a negative order")
    terms = magnitudes if order == 1 else Value(low.emit("pow", [magnitudes], {"exponent": order}), value.shape)
    sums = reduce(low, "reduce_sum", terms, dim, keepdim)
    if order == 1:
        return sums
    if sums.total:
        raise low.refusal("is the norm over all samples, which is not a sum over them")
    return root(low, sums, 1 / order)


def root(low, sums, exponent):
    """A power of sums of what is not negative. Where a sum is 0, PyTorch's gradient of a norm is 0."""
    zeros = Value(low.emit("within", [sums], {"least": 0.0, "most": 0.0}), sums.shape)
    others = Value(low.emit("add", [scaled(low, zeros, -1), 1.0]), sums.shape)
    power = Value(low.emit("pow", [Value(low.emit("add", [sums, zeros]), sums.shape)], {"exponent": exponent}), sums.shape)
    return Value(low.emit("mul", [power, others]), sums.shape)


@translates("_weight_norm")
def weight_norm(low, v, g, dim=0):
    """v · g / ‖v‖, with a norm for each item of an axis."""
    value = low.value(v)
    axes = [axis for axis in range(value.rank) if axis != dim % value.rank]
    squares = Value(low.emit("mul", [value, value]), value.shape)
    scale = low.value(g)
    sums = Value(low.emit("reduce_sum", [squares], {"axes": axes, "keep_dims": True}), scale.shape)
    inverse = Value(low.emit("pow", [sums], {"exponent": -0.5}), scale.shape)
    return low.result("mul", [value, Value(low.emit("mul", [scale, inverse]), scale.shape)])


@translates("cumsum")
def cumulative_sum(low, self, dim, dtype=None):
    """A product with a triangle of ones."""
    value = low.value(self)
    axis = axis_of_one(low, value, dim)
    return shaping.along(low, value, axis, torch.ones(value.shape[axis], value.shape[axis]).triu())


MOST_FACTORS = 512


@translates("prod")
def product(low, self, dim=None, keepdim=False, dtype=None):
    """Of halves of the axis, until one is left."""
    value = low.value(self)
    if dim is None:
        raise low.refusal("multiplies all elements, those of all samples; give it an axis")
    axis = axis_of_one(low, value, dim)
    if value.shape[axis] > MOST_FACTORS:
        raise low.refusal(f"multiplies more than {MOST_FACTORS} numbers")
    factors = shaping.parts(low, value, axis, [1] * value.shape[axis])
    while len(factors) > 1:
        pairs = [Value(low.emit("mul", [a, b]), a.shape) for a, b in zip(factors[::2], factors[1::2])]
        factors = pairs + factors[len(factors) - len(factors) % 2:]
    return shaping.reshaped(low, factors[0], tuple(low.form().shape))


@translates("cumprod")
def cumulative_product(low, self, dim, dtype=None):
    value = low.value(self)
    axis = axis_of_one(low, value, dim)
    if value.shape[axis] > MOST_FACTORS:
        raise low.refusal(f"multiplies more than {MOST_FACTORS} numbers")
    products = []
    for factor in shaping.parts(low, value, axis, [1] * value.shape[axis]):
        products.append(Value(low.emit("mul", [products[-1], factor]), factor.shape) if products else factor)
    return shaping.joined(low, products, axis) if len(products) > 1 else products[0]


@translates("softmax")
def softmax(low, self, dim, dtype=None):
    value = low.value(self)
    return low.result("softmax", [value], {"axis": axis_of_one(low, value, dim)})


@translates("log_softmax")
def log_softmax(low, self, dim, dtype=None):
    value = low.value(self)
    axis = axis_of_one(low, value, dim)
    result = log_normalised(low, value, axis)
    low.logits[result.id] = (value, axis)
    low.normalised[result.id] = axis
    return result


def log_normalised(low, value, axis):
    """log softmax along an axis."""
    reduced = {"axes": [axis], "keep_dims": True}
    shape = tuple(1 if i == axis else extent for i, extent in enumerate(value.shape))
    greatest = Value(low.emit("reduce_max", [value], reduced), shape)
    shifted = Value(low.emit("add", [value, scaled(low, greatest, -1)]), value.shape)
    powers = Value(low.emit("exp", [shifted]), value.shape)
    logarithm = Value(low.emit("log", [Value(low.emit("reduce_sum", [powers], reduced), shape)]), shape)
    return Value(low.emit("add", [shifted, scaled(low, logarithm, -1)]), value.shape)


@translates("logsumexp")
def logsumexp(low, self, dim, keepdim=False):
    value = low.value(self)
    axis = axis_of_one(low, value, dim if isinstance(dim, int) else dim[0])
    reduced = {"axes": [axis], "keep_dims": True}
    shape = tuple(1 if i == axis else extent for i, extent in enumerate(value.shape))
    greatest = Value(low.emit("reduce_max", [value], reduced), shape)
    powers = Value(low.emit("exp", [Value(low.emit("add", [value, scaled(low, greatest, -1)]), value.shape)]), value.shape)
    logarithm = Value(low.emit("log", [Value(low.emit("reduce_sum", [powers], reduced), shape)]), shape)
    kept = Value(low.emit("add", [greatest, logarithm]), shape)
    return kept if keepdim else low.result("reshape", [kept], {"dims": low.dims(low.form().shape)})


def axis_of_one(low, value, dim):
    axis = dim % max(value.rank, 1)
    if not isinstance(value.shape[axis], int):
        raise low.refusal("runs along the axis of the samples, so a sample depends on others")
    return axis
