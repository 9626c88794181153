"""The translations of keras.ops in models, custom layers and losses, by the names of their classes."""

import keras
import numpy

from telar.keras import activations
from telar.keras.values import TENSORS, Deferred, Pending, Value, numbers
from telar.registry import Registry

OPERATIONS = Registry()
translates = OPERATIONS.translates
SAME = ("Cast", "ConvertToTensor")  # they may give the tensor itself, with its mask
OF_SHAPES = ("BroadcastTo", "Concatenate", "ConvertToTensor", "ExpandDims", "GetItem", "Reshape", "Split", "Squeeze", "Stack", "Swapaxes",
             "Transpose")  # what they give of boolean tensors is boolean


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


@translates("Normalize")
def normalize(low, op, x):
    if op.order != 2:
        raise low.refusal("has another norm than that of squares")
    squares = low.reduced("reduce_sum", low.mul(x, x), [op.axis], keepdims=True)
    least = (op.epsilon or keras.config.epsilon()) ** 2
    return low.mul(x, low.power(activations.clamped(low, squares, least, activations.LARGEST), -0.5))


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
    """Between types that are one to Telar, and from and to booleans, which are 0 and 1."""
    to = keras.backend.standardize_dtype(op.dtype) if op.dtype is not None else None
    if x.boolean or to == "bool":
        truth = x if x.boolean else compared(low, "NotEqual", x, 0)
        if to in (None, "bool"):
            return truth
        value = low.any(truth)
        return Value(value.id, value.shape, order=value.order)
    x = low.any(x)
    if to is not None and (to.startswith("int") != x.integer or to in ("float16", "bfloat16", "float64")):
        raise low.refusal(f"converts to {to}; Telar computes in float32")
    return x


# Comparisons. A result is 1 or 0. Inputs may be tokens, of which a table of the tokens tells the result.

def limits(name, number):
    """What `within` must have for a difference to this number, and whether the result is its contrary."""
    largest = activations.LARGEST
    return {"Equal": (number, number, False), "NotEqual": (number, number, True), "Less": (number, largest, True),
            "LessEqual": (-largest, number, False), "Greater": (-largest, number, True),
            "GreaterEqual": (number, largest, False)}[name]


TURNED = {"Equal": "Equal", "NotEqual": "NotEqual", "Less": "Greater", "LessEqual": "GreaterEqual", "Greater": "Less",
          "GreaterEqual": "LessEqual"}


def compared(low, name, a, b):
    """name: of a comparison. a, b: tensors, of which one may be an array or a number."""
    a, b = as_operand(a), as_operand(b)
    if not isinstance(a, TENSORS):
        return compared(low, TURNED[name], b, a)
    shape = numpy.broadcast_shapes(*(tuple(0 if extent is None else extent for extent in getattr(x, "shape", ())) for x in (a, b)))
    shape = tuple(None if extent == 0 else extent for extent in shape)
    return Deferred(shape, lambda low: comparison(low, name, a, b))


def comparison(low, name, a, b):
    least, most, is_contrary = limits(name, float(b) if isinstance(b, (int, float)) else 0.0)
    if is_tokens(low, a):
        if not isinstance(b, (int, float)):
            raise low.refusal("compares tokens with other things than one number")
        return of_tokens(low, getattr(numpy, NUMPY[name]), low.tokens(a), b)
    if is_tokens(low, b):
        return comparison(low, TURNED[name], b, a)
    if low.rounds and not isinstance(b, (int, float)):
        raise low.refusal("compares two tensors, which bf16 would round (a file may be trained in it); give what the comparison gives as an "
                          "input, or use precision f32")
    difference = a if isinstance(b, (int, float)) else low.sub(a, b)
    found = low.unary("within", difference, {"least": least, "most": most})
    return low.negation(found) if is_contrary else found


NUMPY = {"Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal", "Greater": "greater",
         "GreaterEqual": "greater_equal"}


def is_tokens(low, x):
    if isinstance(x, Pending):
        return x.name in low.inputs and low.inputs[x.name].integer
    return isinstance(x, Value) and x.integer


def of_tokens(low, function, tokens, number):
    """function(tokens, number), by a table of all tokens that the embedding of these tokens knows."""
    rows = low.vocabularies.get(tokens.id)
    if rows is None:
        raise low.refusal("compares tokens that no Embedding takes as they are, so their greatest is not known; compare them before "
                          "they are taken apart or reshaped")
    table = low.constant(function(numpy.arange(rows), number).astype(numpy.float32)[:, None])
    return low.reshaped(Value(low.emit("embedding", [tokens, table]), (*tokens.shape, 1)), tokens.shape)


for _name in TURNED:
    OPERATIONS[_name] = lambda low, op, x1, x2, _name=_name: compared(low, _name, x1, x2)


def logical(name, of):
    @translates(name)
    def translate(low, op, *operands):
        parts = [x if isinstance(x, TENSORS) else numpy.asarray(x, dtype=bool).astype(numpy.float32) for x in operands]
        found = of(low, *[low.truth(x) for x in parts])
        found.boolean = True
        return found


logical("LogicalAnd", lambda low, a, b: low.mul(a, b))
logical("LogicalOr", lambda low, a, b: low.negation(low.mul(low.negation(a), low.negation(b))))
logical("LogicalXor", lambda low, a, b: low.sub(low.add(a, b), low.scaled(low.mul(a, b), 2.0)))
logical("LogicalNot", lambda low, x: low.negation(x))


def over(name, of):
    @translates(name)
    def translate(low, op, x):
        x = low.truth(x)
        found = of(low, x, *axes_of(low, op, x))
        found.boolean = True
        return found


over("Any", lambda low, x, axes, keep: low.reduced("reduce_max", x, axes, keep))
over("All", lambda low, x, axes, keep: low.negation(low.reduced("reduce_max", low.negation(x), axes, keep)))


@translates("Where")
def where(low, op, condition, x1=None, x2=None):
    if x1 is None or x2 is None:
        raise low.refusal("gives the places of what is true; Telar has ops.where with both values")
    both = [as_operand(x) for x in (x1, x2)]
    if any(not numpy.isfinite(x).all() for x in both if not isinstance(x, TENSORS)):
        raise low.refusal("has a number that is not finite; take -1e9 in place of -inf")
    found = low.where(low.truth(condition), *both)
    found.boolean = all(getattr(x, "boolean", isinstance(x, bool)) for x in both)
    return found


def full(name, number):
    @translates(name)
    def translate(low, op, x):
        x, dtype = low.any(x), getattr(op, "dtype", None)
        found = low.ones(x.shape, number, x.order)
        found.boolean = dtype is not None and keras.backend.standardize_dtype(dtype) == "bool"
        if x.shape[:1] == (None,):
            found.of_batch = lambda batch: numpy.full((batch.size, *x.shape[1:]), number, bool if found.boolean else numpy.float32)
        return found


full("OnesLike", 1.0)
full("ZerosLike", 0.0)


def reduction(name, telar):
    @translates(name)
    def translate(low, op, x):
        x = low.number(x)
        return low.reduced(telar, x, *axes_of(low, op, x))


def axes_of(low, op, x):
    """The axes that an operation reduces, and whether they stay with one item."""
    axes = range(x.rank) if op.axis is None else [op.axis] if isinstance(op.axis, int) else op.axis
    axes = [axis % x.rank for axis in axes]
    if any(x.shape[axis] is None for axis in axes):
        raise low.refusal("reduces the axis of the samples, so a sample depends on others")
    return axes, op.keepdims


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


