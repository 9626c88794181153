"""The first batch, computed by Telar and by Keras itself.

Python in a layer's call can do what the layers' graph does not show. So the first batch's loss, gradients, moving
statistics and predictions are compared with those of Keras, with the gradients of its backend. Random layers would
differ, so both compute without them.
"""

import contextlib
import functools
import math

import keras
import numpy

from telar import _native
from telar.comparison import LOSS_ERROR, beyond, errors, is_same_loss
from telar.keras.values import Refusal, numbers

RATES = ("rate", "dropout", "stddev")  # not _dropout, by which attention chooses its function: it has a Dropout layer
FLOAT32 = 10  # times the error by the order of the samples alone, where that is more
STATISTIC_ERROR = 1e-3
BF16_ERROR = 3e-2  # of a loss whose products are in bf16


def require_equal(model, captured, batch, arrays, threads):
    """Raises Refusal unless Telar computes what Keras does. captured: for a check (telar.keras.capture)."""
    size = len(next(iter(arrays.values())))
    session = _native.Session(captured.model, size, "sgd", {}, "single", {}, threads=threads)
    sums, _ = session.train(arrays, numpy.arange(size), 0.0, 1, 0, 0 if captured.mean else 1)
    divisor = size if captured.mean else 1
    right, gradients, updates = computed(model, batch)
    if not is_same_loss(sums[0] / divisor, right):
        raise Refusal(f"the loss of the first batch is {sums[0] / divisor:.6g} by Telar and {right:.6g} by Keras, so the model "
                      "does something that its layers' graph does not show")
    held = {name: one for name, one in captured.variables.items() if id(one.variable) in gradients}
    wanted = {name: one.layout.to_telar(gradients[id(one.variable)]) for name, one in held.items()}
    found = {name: session.read_gradient(name) / divisor for name in held}
    require_gradients(model, batch, held, found, wanted)
    require_statistics(session, captured, updates)
    require_predictions(model, captured, batch, arrays, threads)


def require_gradients(model, batch, held, found, wanted):
    places = beyond(found, wanted)
    if not places:
        return
    _, others, _ = computed(model, turned(batch))
    own = errors({name: one.layout.to_telar(others[id(one.variable)]) for name, one in held.items()}, wanted, held)
    if all(distance <= FLOAT32 * own[place] for place, distance in places.items()):
        return  # the order of the samples alone makes such a difference
    place = max(places, key=places.get)
    raise Refusal(f"the gradient of the first batch differs from Keras's by {places[place]:.2g} of its norm"
                  + (f" for '{place}'" if place else "") + "; a gradient of its own, or what Python does in a call, is not in "
                  "the layers' graph")


def require_statistics(session, captured, updates):
    """The variables that a training step of Keras assigns must be statistics that Telar moves, to the same values."""
    names = {id(one.variable): name for name, one in captured.variables.items()}
    for variable, values in updates:
        name = names.get(id(variable))
        if name is None:
            raise Refusal(f"the variable '{variable.path}' is assigned in a call; Telar moves the statistics of "
                          "BatchNormalization only")
        moved = captured.variables[name].layout.to_keras(session.read_state(name), variable.shape)
        if not numpy.allclose(moved, values, rtol=STATISTIC_ERROR, atol=STATISTIC_ERROR * (numpy.abs(values).max() + 1e-6)):
            raise Refusal(f"the statistic '{variable.path}' moves otherwise than in Keras at the first batch")


def require_predictions(model, captured, batch, arrays, threads):
    session = _native.Session(captured.model, 1, "sgd", {}, "single", {}, threads=threads)
    found = session.predict(captured.of_model(arrays))
    with keras.StatelessScope(), without_gradient():
        right = [numbers(output) for output in keras.tree.flatten(called(model, batch[0], training=False))]
    if len(right) > 1:
        right = [numpy.concatenate([output.reshape(len(output), -1) for output in right], axis=1)]
    right = right[0]
    scale = float(numpy.abs(right).max()) if right.size else 0.0
    if found.shape != right.shape or not numpy.allclose(found, right, rtol=1e-3, atol=1e-3 * max(scale, 1e-6)):
        raise Refusal("the predictions of the first batch differ from Keras's, so the model does something in evaluation that "
                      "its layers' graph does not show")


def require_unchanged(model, batch, found, bf16):
    """Raises Refusal if Keras's loss of a batch in evaluation is not the one that was found: the layers' Python does something else now."""
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    with keras.StatelessScope([(one, one.value) for one in model.variables], collect_losses=True), without_gradient():
        right = float(numbers(model._compute_loss(x=x, y=y, y_pred=called(model, x, training=False), sample_weight=weight, training=False)))
    if not is_same_loss(found, right, BF16_ERROR if bf16 else 10 * LOSS_ERROR, 1e-2) and math.isfinite(right):
        raise Refusal(f"the loss of the last batch, in evaluation, is {found:.6g} by Telar and {right:.6g} by Keras with the same values: a layer "
                      "or the loss has changed in Python since the model was read; keep what changes as a number that is an attribute of the "
                      "layer or the loss, as a variable, or compile again")


def called(model, x, training):
    return model(x, training=training) if model._call_has_training_arg else model(x)


def turned(batch):
    """The batch with its samples in the other order."""
    return keras.tree.map_structure(lambda leaf: leaf if leaf is None else keras.ops.flip(leaf, axis=0), batch)


def computed(model, batch):
    """Keras's loss, its gradients by id of the variable, and the variables that it would assign with their values."""
    x, y, weight = batch
    variables = list(model.trainable_variables)
    by = {"tensorflow": of_tensorflow, "torch": of_torch}[keras.backend.backend()]
    updates = []

    def loss(tensors):
        with keras.StatelessScope(list(zip(variables, tensors)), collect_losses=True) as scope:
            y_pred = called(model, x, training=True)
            result = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=True)
        for variable in model.non_trainable_variables:
            moved = scope.get_current_value(variable)
            if moved is not None and "seed_generator" not in variable.path:
                updates.append((variable, numbers(moved)))
        return result

    with without_chance(model):
        result, gradients = by(loss, [keras.ops.convert_to_tensor(variable.value) for variable in variables])
    found = {id(v): numpy.zeros(v.shape, numpy.float32) if g is None else numbers(g) for v, g in zip(variables, gradients)}
    return float(numbers(result)), found, updates


def of_tensorflow(loss, tensors):
    import tensorflow

    with tensorflow.GradientTape() as tape:
        tape.watch(tensors)
        result = loss(tensors)
    gradients = tape.gradient(result, tensors)
    return result, [None if g is None else tensorflow.convert_to_tensor(g) for g in gradients]


def of_torch(loss, tensors):
    import torch

    from torch.nn.attention import SDPBackend, sdpa_kernel

    tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    # The faster kernel on processors has wrong gradients for a query of which a mask leaves no key (PyTorch 2.11).
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        result = loss(tensors)
        return result.detach(), torch.autograd.grad(result, tensors, allow_unused=True)


def without_gradient():
    if keras.backend.backend() == "torch":
        import torch

        return torch.no_grad()
    return contextlib.nullcontext()


@contextlib.contextmanager
def without_chance(model):
    """Random layers change nothing, and those that vary samples are in evaluation."""
    changed, calls = [], []
    for layer in model._flatten_layers():
        if type(layer).__module__.startswith("keras.src.layers.preprocessing.") and layer._call_has_training_arg:
            calls.append(layer)
            vars(layer)["call"] = in_evaluation(layer.call)
    for layer in [*model._flatten_layers(), *(layer.cell for layer in model._flatten_layers() if hasattr(layer, "cell"))]:
        for name in RATES:
            if isinstance(vars(layer).get(name), float) and vars(layer)[name] != 0:
                changed.append((layer, name, vars(layer)[name]))
                vars(layer)[name] = 0.0
    try:
        yield
    finally:
        for layer in calls:
            del vars(layer)["call"]
        for layer, name, value in changed:
            vars(layer)[name] = value


def in_evaluation(call):
    @functools.wraps(call)
    def evaluated(*arguments, training=None, **keywords):
        return call(*arguments, training=False, **keywords)

    return evaluated
