"""Which steps of a sample count, by Keras's own rules (`keras.layers.Layer.__call__`).

A tensor has a mask from the layer that made it. A call of a layer takes the masks of its inputs, and the layer's
compute_mask says what its results have. MultiHeadAttention takes the masks away from its inputs, for all later layers too.
"""

import inspect

import keras
from keras import tree
from keras.src.utils.python_utils import is_default

from telar.keras.values import TENSORS

MAKERS = (keras.layers.Embedding, keras.layers.Lambda)  # of masks, without one of their inputs


def mask_of(x):
    return getattr(x, "mask", None)


def populated(layer, arguments, keywords):
    """What a layer is called with when Keras has added the masks of its inputs.

    Returns the keywords, the first argument, and the mask that passes through layers that keep it: a structure as that of
    the first argument.
    """
    takes = inspect.signature(layer.call).parameters
    any_name = any(one.kind is one.VAR_KEYWORD for one in takes.values())
    named = {name: value for name, value in keywords.items() if any_name or name in takes}
    bound = inspect.signature(layer.call).bind(*arguments, **named)
    bound.apply_defaults()
    given = bound.arguments
    first = next(iter(given.values()))
    tensors = {name: value for name, value in given.items() if is_of_tensors(value)}
    keywords = dict(keywords)
    if len(tensors) == 1 and "mask" in given and given["mask"] is None:
        keywords["mask"] = tree.map_structure(mask_of, next(iter(tensors.values())))
    for name, value in tensors.items() if len(tensors) > 1 else ():
        if f"{name}_mask" in given and given[f"{name}_mask"] is None:
            keywords[f"{name}_mask"] = tree.map_structure(mask_of, value)
    through = keywords.get("mask")
    return keywords, first, through if through is not None else tree.map_structure(mask_of, first)


def is_of_tensors(value):
    leaves = tree.flatten(value)
    return any(hasattr(leaf, "shape") for leaf in leaves) and all(leaf is None or hasattr(leaf, "shape") for leaf in leaves)


def pass_on(layer, first, through, results, trace):
    """Gives the results the masks that the layer's compute_mask computes. trace: a function of (function, arguments, name)."""
    if not layer.supports_masking:
        return
    results = [one for one in tree.flatten(results) if isinstance(one, TENSORS)]
    if all(mask_of(one) is not None for one in results):
        return
    rule = layer.compute_mask
    if is_default(rule):
        found = through
    elif type(layer).compute_mask.__module__.startswith("keras.src.") and not isinstance(layer, MAKERS) and not any(
            mask is not None for mask in tree.flatten(through)):
        return
    else:
        found = trace(rule, [first, through], f"compute_mask of the layer '{layer.name}'")
    for one, mask in zip(results, tree.flatten(found)):
        if mask is not None and mask_of(one) is None:
            one.mask = mask
