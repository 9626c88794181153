"""From the graph of a model's layers to operations of Telar.

Keras records each call of a layer or an operation with symbolic tensors as a node. Models of layers have these nodes;
for a custom layer, its `call` is run once with symbolic tensors, so that it makes them.
"""

import contextlib
import dataclasses
import inspect

import keras
import numpy
from keras import tree
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.layers.layer import CallContext

from telar.keras import masks
from telar.keras.layers import LAYERS, regularisation
from telar.keras.operations import OF_SHAPES, OPERATIONS, SAME
from telar.keras.values import TENSORS, Prepared, Refusal, numbers


def outputs_of(low, inputs, values, outputs, training=None):
    """The values of symbolic tensors `outputs`, where symbolic `inputs` have these values.

    training: the mode of all layers, whatever the calls say, as in a Functional model; None: as the calls say.
    """
    known = {id(tensor): value for tensor, value in zip(inputs, values)}
    for node in nodes_before(outputs, known):
        arguments, keywords = (tree.map_structure(lambda leaf: known_or_constant(leaf, known), given)
                               for given in (node.arguments.args, node.arguments.kwargs))
        keywords = dict(keywords)
        if training is not None and getattr(node.operation, "_call_has_training_arg", False):
            keywords["training"] = training
        results = called(low, node.operation, list(arguments), keywords)
        results = results if isinstance(results, (list, tuple)) else [results]
        if len(results) != len(node.outputs):
            raise Refusal(f"the layer '{node.operation.name}' has {len(node.outputs)} results, of which Telar has {len(results)}")
        known |= {id(tensor): value for tensor, value in zip(node.outputs, results)}
    return [known[id(tensor)] for tensor in outputs]


def nodes_before(outputs, known):
    """The calls that lead to symbolic tensors, each after those that it needs."""
    order, seen, stack = [], set(), [(tensor, False) for tensor in reversed(outputs)]
    while stack:
        item, is_complete = stack.pop()
        if is_complete:
            order.append(item)
            continue
        if id(item) in known:
            continue
        history = getattr(item, "_keras_history", None)
        if history is None or history.operation is None:
            raise Refusal("a tensor of the model comes neither from its inputs nor from a layer")
        node = history.operation._inbound_nodes[history.node_index]
        if id(node) in seen:
            continue
        if node.is_input:
            raise Refusal(f"the model depends on the input '{history.operation.name}', which is not one of its inputs")
        seen.add(id(node))
        stack.append((node, True))
        stack += [(tensor, False) for tensor in reversed(node.arguments.keras_tensors)]  # masks after what they belong to
    return order


def known_or_constant(leaf, known):
    """An argument of a call: values for tensors, arrays for constants, variables and numbers as they are."""
    if isinstance(leaf, keras.KerasTensor):
        return known[id(leaf)]
    if isinstance(leaf, keras.Variable) or not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return leaf
    return numbers(leaf)


def called(low, operation, arguments, keywords):
    """What a layer or an operation of Keras gives for values."""
    with low.inside(operation):
        kind = type(operation)
        name = kind.__name__
        if is_of_arrays(arguments, keywords) and not getattr(operation, "variables", None):
            return computed(operation, arguments, keywords)
        if isinstance(operation, keras.layers.Layer):
            return of_layer(low, operation, arguments, keywords)
        if kind.__module__.startswith("keras.src.ops.") and name in OPERATIONS:
            taken = [tree.map_structure(lambda leaf: as_parameter(low, leaf), given) for given in (arguments, keywords)]
            results = OPERATIONS[name](low, operation, *taken[0], **taken[1])
            results = results if name in SAME else apart(results, taken)
            inputs = tensors_of(taken)
            if name in OF_SHAPES and inputs and all(one.boolean for one in inputs):
                for one in tensors_of(results):
                    one.boolean = True
            note_batch_values(operation, taken, results)
            return results
        raise low.refusal("is an operation that Telar does not have")


def of_layer(low, layer, arguments, keywords):
    """What a layer gives."""
    require_supported(low, layer)
    return with_masks(low, layer, arguments, keywords, computed_layer)


def with_masks(low, layer, arguments, keywords, compute):
    """What a layer gives, with its masks. compute: a function of (lowering, layer, arguments, keywords)."""
    keywords, first, through = masks.populated(layer, arguments, keywords)
    results = compute(low, layer, arguments, keywords)
    masks.pass_on(layer, first, through, results, lambda rule, given, name: traced(low, rule, given, {}, name))
    return results


def computed_layer(low, layer, arguments, keywords):
    name = type(layer).__name__
    if getattr(keras.layers, name, None) is not type(layer) or name not in LAYERS:
        prepared = of_batch_alone(low, layer, arguments, keywords)
        return composed(low, layer, arguments, keywords) if prepared is None else prepared
    results = translated(low, layer, LAYERS[name], arguments, keywords)
    results = results if layer.supports_masking else apart(results, (arguments, keywords))
    if not layer.variables and name not in regularisation.LAYERS:
        note_batch_values(layer, (arguments, keywords), results)
    return results


def tensors_of(structure):
    return [leaf for leaf in tree.flatten(structure) if isinstance(leaf, TENSORS)]


def apart(results, given):
    """The results as tensors of their own, without a mask, where they are one of those that were given."""
    inputs = tensors_of(given)
    return tree.map_structure(
        lambda one: dataclasses.replace(one, mask=None) if any(one is other for other in inputs) else one, results)


def note_batch_values(operation, given, results):
    """Results of what the batch alone gives are given by it, too: Keras computes them when they are asked for."""
    inputs = tensors_of(given)
    if not inputs or any(one.of_batch is None for one in inputs):
        return
    key = object()

    def of_batch(batch):
        if key not in batch.known:
            arrays = [tree.map_structure(lambda leaf: leaf.of_batch(batch) if isinstance(leaf, TENSORS) else leaf, part)
                      for part in given]
            batch.known[key] = tree.flatten(computed(operation, *arrays))
        return batch.known[key]

    for place, one in enumerate(tensors_of(results)):
        if one.of_batch is None:
            one.of_batch = lambda batch, place=place: of_batch(batch)[place]


def of_batch_alone(low, layer, arguments, keywords):
    """What a layer of Keras that Telar does not have gives for what the batch alone gives, as one that prepares or varies images.

    Keras computes it of the whole batch before each step. None for other layers.
    """
    inputs = tensors_of((arguments, keywords))
    own = not type(layer).__module__.startswith("keras.src.layers.") or isinstance(layer, keras.layers.Lambda)
    if own or layer.trainable_variables or not inputs or any(one.of_batch is None for one in inputs):
        return None
    keywords = {name: value for name, value in keywords.items() if name not in ("mask", "training")}
    of_training = False
    if layer._call_has_training_arg:
        of_training = keywords["training"] = low.training and not low.check
    key = object()

    def results(batch):
        if key not in batch.known:
            given = tree.map_structure(lambda leaf: leaf.of_batch(batch) if isinstance(leaf, TENSORS) else leaf, (arguments, keywords))
            batch.known[key] = tree.flatten(computed(layer, *given))
        return batch.known[key]

    given = tree.map_structure(lambda leaf: keras.KerasTensor(leaf.shape, dtype_of(leaf)) if isinstance(leaf, TENSORS) else leaf,
                               (arguments, keywords))
    found = [low.prepare(Prepared(f"of_{layer.name}{place or ''}", tuple(form.shape),
                                  form.dtype.startswith(("int", "uint")), form.dtype == "bool",
                                  compute=lambda batch, place=place: results(batch)[place], of_training=of_training))
             for place, form in enumerate(tree.flatten(layer.compute_output_spec(*given[0], **given[1])))]
    return found if len(found) > 1 else found[0]


def translated(low, layer, translate, arguments, keywords):
    """What a layer of Keras gives. Of its keywords, those that its translation takes."""
    takes = inspect.signature(translate).parameters
    for name in keywords:
        if name not in takes and name != "training" and keywords[name] is not None:
            raise low.refusal(f"is called with {name}")
    return translate(low, layer, *arguments, **{name: value for name, value in keywords.items() if name in takes})


def as_parameter(low, leaf):
    return low.parameter(leaf) if isinstance(leaf, keras.Variable) else leaf


def is_of_arrays(arguments, keywords):
    leaves = tree.flatten((arguments, keywords))
    return any(isinstance(leaf, numpy.ndarray) for leaf in leaves) and not any(
        hasattr(leaf, "shape") and not isinstance(leaf, numpy.ndarray) for leaf in leaves)


def computed(operation, arguments, keywords):
    """The same of constants, by Keras."""
    results = operation(*arguments, **keywords)
    return tree.map_structure(numbers, results)


def composed(low, layer, arguments, keywords):
    """A model within the model, or a layer whose call is made of layers and operations."""
    inner = getattr(layer, "_functional", None) or layer  # a Sequential has a functional model
    if isinstance(inner, keras.src.models.functional.Functional) and type(layer).call in OWN_CALLS:
        values = tree.flatten(arguments[0])
        for value, mask in zip(values, tree.flatten(keywords.get("mask"))):
            value.mask = value.mask if mask is None else mask
        if len(values) != len(inner.inputs):
            raise low.refusal(f"is called with {len(values)} inputs, but has {len(inner.inputs)}")
        with low.mode(keywords.get("training")):
            results = outputs_of(low, inner.inputs, values, tree.flatten(inner.outputs), low.training)
        return results if len(results) > 1 else results[0]
    if isinstance(layer, keras.layers.Lambda):
        takes = ("mask",) if layer._fn_expects_mask_arg else ()
        return traced(low, lambda *given, **named: layer.function(*given, **named, **(layer.arguments or {})), arguments,
                      {key: value for key, value in keywords.items() if key in takes or key not in ("mask", "training")},
                      f"the function of Lambda layer '{layer.name}'")
    if type(layer).__module__.startswith("keras.src."):
        raise low.refusal("is a layer that Telar does not have")
    takes = inspect.signature(layer.call).parameters
    mode = low.training if keywords.get("training") is None else keywords["training"]
    keywords = {key: value for key, value in keywords.items() if key in takes}
    if "training" in takes:
        keywords["training"] = mode
    with low.mode(mode):
        return traced(low, layer.call, arguments, keywords, f"layer '{layer.name}', {type(layer).__name__}")


def traced(low, function, arguments, keywords, name):
    """function of symbolic tensors, and then of values."""
    inputs, values = [], []

    def symbolic(leaf):
        if not hasattr(leaf, "shape") or isinstance(leaf, keras.Variable):
            return leaf
        inputs.append(keras.KerasTensor(leaf.shape, dtype=dtype_of(leaf)))
        values.append(leaf)
        return inputs[-1]

    layers = getattr(getattr(function, "__self__", None), "_flatten_layers", list)()
    with nodes_kept(layers), calls_recorded(inputs, values, low.training):
        try:
            given = tree.map_structure(symbolic, arguments)
            named = tree.map_structure(symbolic, keywords)
            results = function(*given, **named)
        except Refusal:
            raise
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise Refusal(f"{name} cannot be called with symbolic tensors: {lines[0] if lines else type(error).__name__}; it "
                          "may use layers and keras.ops, and the number of samples only as -1") from error
        flat = [result for result in tree.flatten(results) if result is not None]
        for result in flat:
            if not isinstance(result, keras.KerasTensor):
                raise Refusal(f"{name} gives {type(result).__name__}, which does not depend on its inputs by layers and keras.ops")
        found = iter(outputs_of(low, inputs, values, flat))
    found = [None if result is None else next(found) for result in tree.flatten(results)]
    return found if isinstance(results, (list, tuple, dict)) else found[0]


def dtype_of(value):
    """The type that Keras has for a value."""
    if isinstance(value, numpy.ndarray):
        return {"i": "int32", "u": "int32", "b": "bool"}.get(value.dtype.kind, "float32")
    return "bool" if value.boolean else "int32" if value.integer else "float32"


@contextlib.contextmanager
def nodes_kept(layers):
    """Afterwards the layers have no record of the calls that were made in between.

    Raises Refusal for a layer that adds a loss in its call.
    """
    kept = [(of, len(of)) for layer in layers for of in (layer._inbound_nodes, layer._outbound_nodes)]
    losses = [(layer, len(layer._losses)) for layer in layers]
    try:
        yield
        for layer, count in losses:
            if len(layer._losses) > count:
                raise Refusal(f"the layer '{layer.name}' adds a loss in its call (add_loss); give compile() a loss that has it")
    finally:
        for of, count in [*kept, *((layer._losses, count) for layer, count in losses)]:
            del of[count:]


@contextlib.contextmanager
def calls_recorded(inputs, values, training):
    """Each call of a layer makes a node that has its mode: what the caller gives, else that of the calls around it.

    A layer with variables that is called with constants, such as an embedding of positions, makes one, too. Else Keras
    would compute it at once, and its variables would become constants of the graph.
    """
    whole = keras.layers.Layer.__call__
    before = global_state.get_global_attribute("current_call_ctx")
    context = CallContext(entry_layer=None)
    context.set_value("training", training)

    def call(layer, *arguments, **keywords):
        if in_stateless_scope():  # Keras asks for shapes
            return whole(layer, *arguments, **keywords)
        if layer._call_has_training_arg and context.get_value("training") is not None:
            keywords.setdefault("training", context.get_value("training"))
        leaves = tree.flatten((arguments, keywords))
        is_constant = any(keras.ops.is_tensor(leaf) for leaf in leaves) and not any(
            isinstance(leaf, keras.KerasTensor) for leaf in leaves)
        if is_constant and layer.variables:
            arguments, keywords = (tree.map_structure(symbolic, given) for given in (arguments, keywords))
        return whole(layer, *arguments, **keywords)

    def symbolic(leaf):
        if not keras.ops.is_tensor(leaf):
            return leaf
        inputs.append(keras.KerasTensor(tuple(leaf.shape), dtype=keras.backend.standardize_dtype(leaf.dtype)))
        values.append(numbers(leaf))
        return inputs[-1]

    keras.layers.Layer.__call__ = call
    global_state.set_global_attribute("current_call_ctx", context)
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = whole
        global_state.set_global_attribute("current_call_ctx", before)


def require_supported(low, layer):
    """Raises Refusal for what no translation of a layer can show."""
    if layer.compute_dtype != "float32" and not isinstance(layer, (keras.layers.InputLayer,)):
        raise low.refusal(f"computes in {layer.compute_dtype}; Telar computes in float32 (precision='bf16' is an option of use)")
    if layer.activity_regularizer is not None:
        raise low.refusal("has an activity_regularizer, which Telar does not have; add the penalty to the loss")


OWN_CALLS = {keras.src.models.functional.Functional.call, keras.Sequential.call}
