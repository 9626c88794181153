"""Dense layers, embeddings, activations, and layers that combine tensors."""

import numpy

from telar.keras import activations
from telar.keras.activations import activated
from telar.keras.masks import mask_of
from telar.keras.operations import compared
from telar.keras.values import Layout, Value, numbers
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


def transposed(variable):
    """The layout of a matrix [in, out], which Telar holds as [out, in]."""
    rows, columns = variable.shape
    return Layout((rows, columns), (1, 0), (columns, rows))


@translates("Dense")
def dense(low, layer, x):
    if layer.quantization_mode is not None or getattr(layer, "lora_enabled", False):
        raise low.refusal("is quantised or has LoRA weights")
    weight = low.parameter(layer._kernel, transposed(layer._kernel))
    bias = low.parameter(layer.bias) if layer.use_bias else None
    return activated(low, low.linear(x, weight, bias), layer.activation)


@translates("Embedding")
def embedding(low, layer, x):
    table = low.parameter(layer._embeddings)
    return rows_of(low, table, x)


def rows_of(low, table, x):
    """table[x], of tokens, or of constants: then it does not depend on the samples."""
    if not hasattr(x, "astype"):
        tokens = low.tokens(x)
        low.vocabularies.setdefault(tokens.id, table.shape[0])
        return Value(low.emit("embedding", [tokens, table]), (*tokens.shape, table.shape[1]))
    chosen = x.astype(int).reshape(-1)
    first = int(chosen[0])
    if (chosen == range(first, first + len(chosen))).all():
        found = low.part(table, 0, first, first + len(chosen)) if len(chosen) != table.shape[0] else table
    else:
        one_hot = (chosen[:, None] == range(table.shape[0])).astype("float32")
        found = low.matmul(low.constant(one_hot), table)
    return low.reshaped(found, (*x.shape, table.shape[1]))


@translates("Masking")
def masking(low, layer, x):
    """Steps of which all numbers are the mask's value are zeros, and do not count."""
    if not isinstance(layer.mask_value, (int, float)):
        raise low.refusal("has a mask_value that is not a number")
    given, x = x, low.number(x)
    number = float(numpy.float32(layer.mask_value))
    others = low.negation(low.unary("within", x, {"least": number, "most": number}))
    counts = low.reduced("reduce_max", others, [x.rank - 1], keepdims=True)
    result = low.mul(x, counts)
    result.mask = low.reshaped(counts, x.shape[:-1])
    result.mask.boolean = True
    if given.of_batch is not None:
        result.mask.of_batch = lambda batch: (as_float(given.of_batch(batch)) != numpy.float32(number)).any(-1)
    return result


def as_float(array):
    return numpy.asarray(array, dtype=numpy.float32)


@translates("Activation")
def activation(low, layer, x):
    return activated(low, x, layer.activation)


@translates("ReLU")
def relu(low, layer, x):
    return activations.relu_of(low, x, layer.negative_slope, layer.max_value, layer.threshold)


@translates("LeakyReLU")
def leaky_relu(low, layer, x):
    return activations.leaky_relu(low, x, float(layer.negative_slope))


@translates("ELU")
def elu(low, layer, x):
    below = low.sub(low.unary("elu", x), low.unary("relu", x))
    return low.add(low.unary("relu", x), low.scaled(below, float(layer.alpha)))


@translates("PReLU")
def prelu(low, layer, x):
    """alpha has the shape of a sample, or one item along shared axes."""
    alpha = low.parameter(layer.alpha)
    below = low.mul(low.unary("relu", low.scaled(x, -1)), low.reshaped(alpha, (1, *alpha.shape)))
    return low.sub(low.unary("relu", x), below)


@translates("Softmax")
def softmax(low, layer, x, mask=None):
    """What is masked is 0, even if all of an axis is."""
    if not isinstance(layer.axis, int):
        raise low.refusal("has several axes")
    if mask is None:
        return activations.softmax(low, x, layer.axis)
    if len(mask.shape) != len(x.shape):
        raise low.refusal(f"has a mask of the shape {list(mask.shape)} for {list(x.shape)}; give it as many axes")
    if not mask.boolean:
        mask = compared(low, "Greater", mask, 0.5)
    return activations.masked_softmax(low, x, low.truth(mask), layer.axis, -1e9)


@translates("Rescaling")
def rescaling(low, layer, x):
    """scale and offset are numbers, or one for each channel."""
    x = low.number(x)
    scale, offset = (float(n) if n.ndim == 0 else n for n in (numbers(layer.scale), numbers(layer.offset)))
    x = low.mul(x, scale)
    return x if isinstance(offset, float) and offset == 0 else low.add(x, offset)


@translates("Normalization")
def normalization(low, layer, x):
    """By the means and variances of layer.adapt()."""
    import keras

    mean, variance = numbers(layer.mean), numbers(layer.variance)
    deviation = (variance**0.5).clip(keras.config.epsilon())
    if layer.invert:
        return low.add(low.mul(x, deviation), mean)
    return low.mul(low.sub(x, mean), 1 / deviation)


@translates("Identity")
def identity(low, layer, x):
    return x


@translates("Add")
def add(low, layer, inputs):
    return folded(low, inputs, low.add)


@translates("Multiply")
def multiply(low, layer, inputs):
    """What is masked counts as 1; where all are, the product is 0."""
    masks = [mask_of(x) for x in inputs]
    product = folded(low, [x if mask is None else low.where(of_steps(low, mask, x), x, 1.0) for x, mask in zip(inputs, masks)], low.mul)
    if any(mask is None for mask in masks):
        return product
    mask = either(low, masks)
    product = low.mul(product, of_steps(low, mask, product))
    product.mask = mask
    return product


def of_steps(low, mask, x):
    """A mask [N, T] for a tensor [N, T, C]."""
    if len(mask.shape) != len(x.shape) - 1:
        raise low.refusal(f"has a mask of the shape {list(mask.shape)} for {list(x.shape)}; it must have one axis less")
    return low.reshaped(low.truth(mask), (*mask.shape, 1))


def either(low, masks):
    truth = low.truth(masks[0])
    for other in masks[1:]:
        truth = low.negation(low.mul(low.negation(truth), low.negation(low.truth(other))))
    truth.boolean = True
    if all(mask.of_batch is not None for mask in masks):
        truth.of_batch = lambda batch: numpy.logical_or.reduce([mask.of_batch(batch) for mask in masks])
    return truth


@translates("Average")
def average(low, layer, inputs):
    return low.scaled(folded(low, inputs, low.add), 1 / len(inputs))


@translates("Subtract")
def subtract(low, layer, inputs):
    return folded(low, inputs, low.sub)


@translates("Maximum")
def maximum(low, layer, inputs):
    return extreme(low, inputs, activations.maximum)


@translates("Minimum")
def minimum(low, layer, inputs):
    return extreme(low, inputs, activations.minimum)


def extreme(low, inputs, of):
    """The greatest or the least of what is not masked."""
    result, kept = inputs[0], mask_of(inputs[0])
    for x in inputs[1:]:
        mask, other = mask_of(x), x
        if mask is not None:
            other = low.where(of_steps(low, mask, x), x, result)
        if kept is not None:
            result = low.where(of_steps(low, kept, x), result, other)
        kept = either(low, [kept, mask]) if kept is not None and mask is not None else None
        result = folded(low, [result, other], lambda a, b: of(low, a, b))
    if kept is not None:
        result.mask = kept
    return result


def folded(low, inputs, combine):
    ranks = {low.any(x).rank for x in inputs}
    if len(ranks) > 1:
        raise low.refusal("combines tensors with different numbers of axes; reshape them before")
    result = inputs[0]
    for other in inputs[1:]:
        result = combine(result, other)
    return result


@translates("Concatenate")
def concatenate(low, layer, inputs):
    parts = [low.number(x) for x in inputs]
    axis = layer.axis % parts[0].rank
    if axis == 0:
        raise low.refusal("joins batches along the axis of the samples")
    return low.joined(parts, axis)


@translates("Dot")
def dot(low, layer, inputs):
    """Of vectors of each sample."""
    a, b = (low.number(x) for x in inputs)
    axes = [layer.axes] * 2 if isinstance(layer.axes, int) else list(layer.axes)
    if a.rank != 2 or b.rank != 2 or any(axis % 2 != 1 for axis in axes):
        raise low.refusal("is of other tensors than two vectors for each sample")
    if layer.normalize:
        a, b = (low.mul(x, low.power(low.add(low.reduced("reduce_sum", low.mul(x, x), [1], True), 1e-12), -0.5))
                for x in (a, b))
    return low.reduced("reduce_sum", low.mul(a, b), [1], keepdims=True)
