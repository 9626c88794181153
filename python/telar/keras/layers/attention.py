"""Attention."""

import functools
import math

import keras
import numpy

from telar.keras.activations import softmax
from telar.keras.layers.regularisation import is_training
from telar.keras.masks import mask_of
from telar.keras.values import TENSORS, Layout
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates
LOWEST = -1e30


def projected(low, dense, x, heads):
    """x [N, T, D] by a kernel [D, heads, width], as [N, heads, T, width]."""
    inputs, _, width = dense._kernel.shape
    weight = low.parameter(dense._kernel, Layout((inputs, heads * width), (1, 0), (heads * width, inputs)))
    bias = low.parameter(dense.bias, Layout((heads * width,), (0,), (heads * width,))) if dense.bias is not None else None
    y = low.linear(x, weight, bias)
    return low.permuted(low.reshaped(y, (*y.shape[:-1], heads, width)), [0, 2, 1, 3])


def masked(low, scores, mask, adds):
    """scores [N, …, T, S] of which those that the mask leaves count; where it leaves none, all are alike.

    mask: 1 or 0, a tensor or an array. adds: whether a great number is taken off the scores, in place of another score:
    their gradients differ where no score is left.
    """
    if isinstance(mask, numpy.ndarray):
        lowest = numpy.where(mask, 0.0, LOWEST)
    else:
        lowest = low.scaled(low.negation(mask), LOWEST)
    return low.add(scores if adds else low.mul(scores, mask), lowest)


def combined(low, masks):
    """What all masks leave: a tensor, or an array if none depends on the samples."""
    fixed = [mask for mask in masks if isinstance(mask, numpy.ndarray)]
    of_samples = [mask for mask in masks if not isinstance(mask, numpy.ndarray)]
    array = functools.reduce(numpy.multiply, [mask != 0 for mask in fixed], True)
    if not of_samples:
        return array
    tensor = functools.reduce(low.mul, of_samples)
    return tensor if numpy.all(array) else low.mul(tensor, array.astype(numpy.float32))


def of_scores(low, mask):
    """An attention_mask [T, S], [N, T, S] or [N, heads, T, S] for scores [N, heads, T, S]."""
    shape = tuple(mask.shape)
    if isinstance(mask, numpy.ndarray):
        return mask.reshape((*shape[:-2], *[1] * (4 - len(shape)), *shape[-2:]))
    return low.reshaped(low.truth(mask), (*shape[:-2], *[1] * (4 - len(shape)), *shape[-2:]))


@translates("MultiHeadAttention")
def multi_head_attention(low, layer, query, value=None, key=None, query_mask=None, value_mask=None, key_mask=None,
                         attention_mask=None, return_attention_scores=False, training=None, use_causal_mask=False):
    """softmax(q · kᵀ / √width) · v for each head. The mask of the queries is that of the tensor, whatever is given."""
    query_mask = mask_of(query)
    for tensor in (query, value, key):
        if isinstance(tensor, TENSORS):
            tensor.mask = None
    query, value = low.number(query), low.number(value)
    key = value if key is None else low.number(key)
    heads = layer._num_heads
    for reason, found in (("has inputs with more axes than [N, T, D]", query.rank != 3 or value.rank != 3),
                          ("returns its scores", return_attention_scores),
                          ("has a gate or a sliding window", layer._use_gate or layer._sliding_window is not None)):
        if found:
            raise low.refusal(reason)
    q = projected(low, layer._query_dense, query, heads)
    k = projected(low, layer._key_dense, key, heads)
    v = projected(low, layer._value_dense, value, heads)
    queries, keys = q.shape[2], k.shape[2]
    masks = [numpy.tril(numpy.ones((1, 1, queries, keys)))] if use_causal_mask else []
    if attention_mask is not None:
        masks.append(of_scores(low, attention_mask))
    for mask, shape in ((query_mask, (None, 1, queries, 1)), (value_mask, (None, 1, 1, keys)), (key_mask, (None, 1, 1, keys))):
        if mask is not None:
            masks.append(low.reshaped(low.truth(mask), shape))
    scores = low.matmul(low.scaled(q, 1 / math.sqrt(layer._key_dim)), k, transpose_b=True)
    drops = layer._dropout > 0  # Keras then computes by another function, in evaluation, too
    mask = combined(low, masks) if masks else None
    if mask is not None:
        scores = masked(low, scores, mask, adds=keras.backend.backend() == "torch" and not drops)
    weights = softmax(low, scores)
    if mask is not None and drops:
        weights = low.mul(weights, mask)
    if is_training(low, training):
        weights = low.dropped(weights, layer._dropout)
    y = low.permuted(low.matmul(weights, v), [0, 2, 1, 3])
    y = low.reshaped(y, (*y.shape[:2], y.shape[2] * y.shape[3]))
    dense = layer._output_dense
    *_, outputs = dense._kernel.shape
    if len(dense._kernel.shape) != 3:
        raise low.refusal("has an output with several axes")
    weight = low.parameter(dense._kernel, Layout((y.shape[-1], outputs), (1, 0), (outputs, y.shape[-1])))
    result = low.linear(y, weight, low.parameter(dense.bias) if dense.bias is not None else None)
    result.mask = query_mask
    return result


@translates("Attention")
def attention(low, layer, inputs, mask=None, return_attention_scores=False, training=None, use_causal_mask=False):
    """softmax(q · kᵀ) · v."""
    if return_attention_scores or layer.score_mode != "dot" or layer.use_scale:
        raise low.refusal("has another score than the plain product, or returns its scores")
    query, value, *more = inputs
    of_query, of_value, *_ = [*(mask or []), None, None]
    scores = low.matmul(query, more[0] if more else value, transpose_b=True)
    masks = [numpy.tril(numpy.ones((1, *scores.shape[1:])))] if use_causal_mask else []
    if of_value is not None:
        masks.append(low.reshaped(low.truth(of_value), (None, 1, scores.shape[2])))
    if masks:
        left = combined(low, masks)
        taken = (1.0 - left) * -1e9 if isinstance(left, numpy.ndarray) else low.scaled(low.negation(left), -1e9)
        scores = low.add(scores, taken)
    weights = softmax(low, scores)
    if is_training(low, training):
        weights = low.dropped(weights, layer.dropout)
    y = low.matmul(weights, value)
    return y if of_query is None else low.mul(y, low.reshaped(low.truth(of_query), (*of_query.shape, 1)))
