"""Attention."""

import math

import numpy

from telar.keras.activations import softmax
from telar.keras.layers.regularisation import is_training
from telar.keras.values import Layout
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


def projected(low, dense, x, heads):
    """x [N, T, D] by a kernel [D, heads, width], as [N, heads, T, width]."""
    inputs, _, width = dense._kernel.shape
    weight = low.parameter(dense._kernel, Layout((inputs, heads * width), (1, 0), (heads * width, inputs)))
    bias = low.parameter(dense.bias, Layout((heads * width,), (0,), (heads * width,))) if dense.bias is not None else None
    y = low.linear(x, weight, bias)
    return low.permuted(low.reshaped(y, (*y.shape[:-1], heads, width)), [0, 2, 1, 3])


@translates("MultiHeadAttention")
def multi_head_attention(low, layer, query, value=None, key=None, query_mask=None, value_mask=None, key_mask=None,
                         attention_mask=None, return_attention_scores=False, training=None, use_causal_mask=False):
    """softmax(q · kᵀ / √width) · v for each head."""
    query, value = low.number(query), low.number(value)
    key = value if key is None else low.number(key)
    heads = layer._num_heads
    for reason, found in (("has inputs with more axes than [N, T, D]", query.rank != 3 or value.rank != 3),
                          ("has a mask of the samples", any(m is not None for m in (query_mask, value_mask, key_mask))),
                          ("returns its scores", return_attention_scores),
                          ("has a gate or a sliding window", layer._use_gate or layer._sliding_window is not None),
                          ("has a mask that depends on the samples",
                           attention_mask is not None and not isinstance(attention_mask, numpy.ndarray))):
        if found:
            raise low.refusal(reason)
    q = projected(low, layer._query_dense, query, heads)
    k = projected(low, layer._key_dense, key, heads)
    v = projected(low, layer._value_dense, value, heads)
    scores = low.matmul(low.scaled(q, 1 / math.sqrt(layer._key_dim)), k, transpose_b=True)
    mask = numpy.ones((1, 1, q.shape[2], k.shape[2]), bool)
    if attention_mask is not None:
        mask = mask & attention_mask.astype(bool).reshape(1, 1, *attention_mask.shape[-2:])
    if use_causal_mask:
        mask = mask & numpy.tril(numpy.ones((q.shape[2], k.shape[2]), bool))
    if not mask.all():
        if not mask.any(axis=-1).all():
            raise low.refusal("masks all keys of a query")
        scores = low.add(scores, numpy.where(mask, 0.0, -1e30))
    weights = softmax(low, scores)
    if is_training(low, training):
        weights = low.dropped(weights, layer._dropout)
    y = low.permuted(low.matmul(weights, v), [0, 2, 1, 3])
    y = low.reshaped(y, (*y.shape[:2], y.shape[2] * y.shape[3]))
    dense = layer._output_dense
    *_, outputs = dense._kernel.shape
    if len(dense._kernel.shape) != 3:
        raise low.refusal("has an output with several axes")
    weight = low.parameter(dense._kernel, Layout((y.shape[-1], outputs), (1, 0), (outputs, y.shape[-1])))
    return low.linear(y, weight, low.parameter(dense.bias) if dense.bias is not None else None)


@translates("Attention")
def attention(low, layer, inputs, mask=None, return_attention_scores=False, training=None, use_causal_mask=False):
    """softmax(q · kᵀ) · v."""
    if return_attention_scores or layer.score_mode != "dot" or layer.use_scale or use_causal_mask:
        raise low.refusal("has another score than the plain product, a mask, or returns its scores")
    if mask is not None and any(m is not None for m in mask):
        raise low.refusal("has a mask of the samples")
    query, value, *more = inputs
    weights = softmax(low, low.matmul(query, more[0] if more else value, transpose_b=True))
    if is_training(low, training):
        weights = low.dropped(weights, layer.dropout)
    return low.matmul(weights, value)
