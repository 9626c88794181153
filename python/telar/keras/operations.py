"""The translations of keras.ops in models, custom layers and losses, by the names of their classes."""

import keras
import numpy

from telar.keras import activations
from telar.keras.values import numbers
from telar.registry import Registry

OPERATIONS = Registry()
translates = OPERATIONS.translates


def binary(name, of):
    @translates(name)
    def translate(low, op, x1, x2):
        return of(low, as_operand(x1), as_operand(x2))


def as_operand(x):
    return float(x) if isinstance(x, numpy.ndarray) and x.ndim == 0 else x


def inverse(low, x):
    return 1 / x if isinstance(x, (int, float, numpy.ndarray)) else low.power(x, -1.0)


def product(low, a, b):
    return low.mul(b, a) if isinstance(a, (int, float)) else low.mul(a, b)


binary("Add", lambda low, a, b: low.add(a, b))
binary("Subtract", lambda low, a, b: low.sub(a, b))
binary("Multiply", product)
binary("Maximum", activations.maximum)
binary("Minimum", activations.minimum)
for _name in ("Divide", "TrueDivide"):
    binary(_name, lambda low, a, b: product(low, a, inverse(low, b)))


def unary(name, of):
    @translates(name)
    def translate(low, op, x):
        return of(low, x)


unary("Negative", lambda low, x: low.scaled(x, -1.0))
unary("Square", lambda low, x: low.mul(x, x))
unary("Sqrt", lambda low, x: low.power(x, 0.5))
unary("Rsqrt", lambda low, x: low.power(x, -0.5))
unary("Reciprocal", lambda low, x: low.power(x, -1.0))
unary("Log1p", lambda low, x: low.unary("log", low.add(x, 1.0)))
unary("Expm1", lambda low, x: low.add(low.unary("exp", x), -1.0))
for _name, _telar in (("Exp", "exp"), ("Log", "log"), ("StopGradient", "stop_gradient"), ("Relu", "relu"), ("Tanh", "tanh"),
                      ("Softplus", "softplus"), ("Silu", "silu"), ("HardSilu", "hardswish")):
    unary(_name, lambda low, x, _telar=_telar: low.unary(_telar, x))
for _name in ("Absolute", "Abs"):
    unary(_name, activations.absolute)
for _name, _of in (("Sigmoid", "sigmoid"), ("Relu6", "relu6"), ("HardSigmoid", "hard_sigmoid"), ("Selu", "selu"),
                   ("Softsign", "softsign"), ("LogSigmoid", "log_sigmoid")):
    unary(_name, activations.ACTIVATIONS[_of])


@translates("Gelu")
def gelu(low, op, x):
    return low.unary("gelu_tanh" if op.approximate else "gelu", x)


@translates("LeakyRelu")
def leaky_relu(low, op, x):
    return activations.leaky_relu(low, x, float(op.negative_slope))


@translates("Elu")
def elu(low, op, x):
    if op.alpha != 1:
        raise low.refusal("has another alpha than 1")
    return low.unary("elu", x)


@translates("Softmax")
def softmax(low, op, x):
    return activations.softmax(low, x, op.axis)


@translates("LogSoftmax")
def log_softmax(low, op, x):
    return activations.log_softmax(low, x, op.axis)


@translates("Power")
def power(low, op, x1, x2):
    exponent = as_operand(x2)
    if not isinstance(exponent, (int, float)):
        raise low.refusal("has a tensor as its exponent")
    return low.power(x1, exponent)


@translates("Clip")
def clip(low, op, x):
    limits = [float(numbers(limit)) for limit in (op.x_min, op.x_max)]
    return activations.clamped(low, x, *limits)


@translates("Cast", "ConvertToTensor")
def cast(low, op, x):
    """Between types that are one to Telar."""
    x = low.any(x)
    to = keras.backend.standardize_dtype(op.dtype) if op.dtype is not None else None
    if to is not None and (to.startswith("int") != x.integer or to in ("bool", "float16", "bfloat16", "float64")):
        raise low.refusal(f"converts to {to}; Telar computes in float32")
    return x


def reduction(name, telar):
    @translates(name)
    def translate(low, op, x):
        x = low.number(x)
        axes = range(x.rank) if op.axis is None else [op.axis] if isinstance(op.axis, int) else op.axis
        axes = [axis % x.rank for axis in axes]
        if any(x.shape[axis] is None for axis in axes):
            raise low.refusal("reduces the axis of the samples, so a sample depends on others")
        return low.reduced(telar, x, axes, op.keepdims)


for _name, _telar in (("Mean", "reduce_mean"), ("Sum", "reduce_sum"), ("Max", "reduce_max"), ("Amax", "reduce_max")):
    reduction(_name, _telar)


@translates("Matmul")
def matmul(low, op, a, b):
    a, b = low.number(a), low.number(b)
    if a.rank < 2 or b.rank < 2:
        raise low.refusal("multiplies a matrix by a vector; give the vector a second axis")
    if b.rank > 2:
        leading = tuple(other if one == 1 else one for one, other in
                        zip(((1,) * (b.rank - a.rank) + a.shape)[:-2], ((1,) * (a.rank - b.rank) + b.shape)[:-2]))
        a = low.expanded(low.reshaped(a, (1,) * (len(leading) + 2 - a.rank) + a.shape), (*leading, *a.shape[-2:]))
        b = low.expanded(low.reshaped(b, (1,) * (len(leading) + 2 - b.rank) + b.shape), (*leading, *b.shape[-2:]))
    return low.matmul(a, b)


@translates("Reshape")
def reshape(low, op, x):
    x = low.any(x)
    shape = list(op.newshape) if isinstance(op.newshape, (list, tuple)) else [op.newshape]
    if None in x.shape:
        if shape[0] not in (-1, None):
            raise low.refusal("makes a tensor whose axis 0 is not the samples")
        shape[0] = None
        elements = count(x.shape[1:])
        shape = [elements // count(e for e in shape if e not in (-1, None)) if e == -1 else e for e in shape]
    else:
        shape = [count(x.shape) // count(e for e in shape if e != -1) if e == -1 else e for e in shape]
    return low.reshaped(x, shape)


def count(extents):
    result = 1
    for extent in extents:
        result *= extent
    return result


@translates("Transpose")
def transpose(low, op, x):
    x = low.any(x)
    return low.permuted(x, [axis % x.rank for axis in op.axes] if op.axes is not None else list(range(x.rank))[::-1])


@translates("Swapaxes")
def swapaxes(low, op, x):
    x = low.any(x)
    axes = list(range(x.rank))
    one, other = op.axis1 % x.rank, op.axis2 % x.rank
    axes[one], axes[other] = other, one
    return low.permuted(x, axes)


@translates("ExpandDims")
def expand_dims(low, op, x):
    x = low.any(x)
    axes = [op.axis] if isinstance(op.axis, int) else list(op.axis)
    shape = list(x.shape)
    for axis in sorted(axis % (x.rank + len(axes)) for axis in axes):
        shape.insert(axis, 1)
    return low.reshaped(x, shape)


@translates("Squeeze")
def squeeze(low, op, x):
    x = low.any(x)
    axes = range(x.rank) if op.axis is None else [op.axis] if isinstance(op.axis, int) else op.axis
    axes = [axis % x.rank for axis in axes]
    return low.reshaped(x, [extent for axis, extent in enumerate(x.shape) if axis not in axes or extent != 1])


@translates("Concatenate")
def concatenate(low, op, xs):
    parts = [low.any(x) for x in xs]
    axis = op.axis % parts[0].rank
    if parts[0].shape[axis] is None:
        raise low.refusal("joins batches along the axis of the samples")
    return low.joined(parts, axis)


@translates("Stack")
def stack(low, op, x):
    parts = [low.any(part) for part in x]
    axis = op.axis % (parts[0].rank + 1)
    return low.joined([low.reshaped(p, (*p.shape[:axis], 1, *p.shape[axis:])) for p in parts], axis)


@translates("Split")
def split(low, op, x):
    x = low.any(x)
    axis = op.axis % x.rank
    ends = op.indices_or_sections
    if isinstance(ends, int):
        sizes = [x.shape[axis] // ends] * ends
    else:
        ends = [0, *ends, x.shape[axis]]
        sizes = [after - before for before, after in zip(ends, ends[1:])]
    return low.parts(x, axis, sizes)


@translates("GetItem")
def get_item(low, op, x, key):
    """Slices with step 1, and single items."""
    x = low.any(x)
    keys = list(key) if isinstance(key, (tuple, list)) else [key]
    if Ellipsis in [k for k in keys if k is Ellipsis]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        given = sum(k is not None for k in keys) - 1
        keys[at:at + 1] = [slice(None)] * (x.rank - given)
    shape, axis = [], 0
    for one in keys:
        if one is None:
            shape.append(1)
            continue
        extent = x.shape[axis]
        if isinstance(one, slice):
            if one != slice(None):
                if extent is None or one.step not in (None, 1):
                    raise low.refusal("takes some of the samples, or items with a step")
                begin, end, _ = one.indices(extent)
                x = low.part(x, axis, begin, end) if (begin, end) != (0, extent) else x
            shape.append(x.shape[axis])
        elif isinstance(one, (int, numpy.integer)):
            if extent is None:
                raise low.refusal("takes one of the samples; each sample must be computed by itself")
            x = low.part(x, axis, int(one) % extent, int(one) % extent + 1)
        else:
            raise low.refusal("takes items by a tensor")
        axis += 1
    return low.reshaped(x, (*shape, *x.shape[axis:]))


@translates("BroadcastTo")
def broadcast_to(low, op, x):
    x = low.number(x)
    shape = (*op.shape,)
    return low.expanded(low.reshaped(x, (1,) * (len(shape) - x.rank) + x.shape), shape)


@translates("Take")
def take(low, op, x, indices):
    from telar.keras.layers.core import rows_of

    table = low.number(x)
    if op.axis not in (0, -table.rank) or table.rank != 2 or None in table.shape:
        raise low.refusal("takes items of another tensor than a table [rows, width]")
    return rows_of(low, table, indices)


@translates("Einsum")
def einsum(low, op, *operands):
    raise low.refusal("is a product by einsum; write it with matmul, reshape and transpose")


