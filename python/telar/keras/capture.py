"""A compiled model of Keras as a model of Telar."""

import dataclasses
import functools

import keras
import numpy
from keras import tree

from telar import _native
from telar.keras import losses
from telar.keras.lowering import Lowering
from telar.keras.values import Pending, Refusal, Value
from telar.keras.variables import Variables
from telar.keras.walking import OWN_CALLS, composed, outputs_of
from telar.loaded import as_input

FUNCTIONAL = keras.src.models.functional.Functional
OWN_STEPS = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics")


@dataclasses.dataclass
class Captured:
    """A model of Telar, and how it belongs to that of Keras.

    inputs: name and element type of each input of the model, in Keras's order; of those that are not used, None.
    names: of the inputs of the graphs. variables: by name in Telar (telar.keras.variables.Held).
    mean: whether the loss is a mean over the samples, not their sum. tracked: metrics of Keras whose sums follow the
    loss in the graphs' metrics. alike: whether training and evaluation compute the same prediction.
    weighted: the shape of a sample's weights, or None. by_weights: whether the loss is divided by their sum.
    """

    model: object
    inputs: list
    names: set
    target: object
    variables: dict
    mean: bool
    tracked: list
    alike: bool
    weighted: tuple
    by_weights: bool

    def arrays(self, x, y=None, weight=None):
        """A batch as arrays by the names of the graphs' inputs."""
        found = {}
        given = tree.flatten(x)
        if len(given) != len(self.inputs):
            raise Refusal(f"the batch has {len(given)} inputs, but the model has {len(self.inputs)}")
        for (name, dtype, shape), array in zip(self.inputs, given):
            if dtype is not None:
                found[name] = as_input(as_whole(array, name) if dtype == "i32" else of_shape(array, shape), dtype, name)
        if y is None:
            return found
        if "label" in self.names:
            found["label"] = self._label(y)
        if "label_index" in self.names:
            found["label_index"] = found["label"].argmax(-1).astype(numpy.int32)
        if "weight" in self.names:
            found["weight"] = self._weight(weight, len(next(iter(found.values()))))
        return found

    def _weight(self, weight, size):
        """The weights of the losses of `size` samples. A mean over the weights is one over the samples of weights in proportion."""
        shape = (size, *self.weighted)
        weight = numpy.ones(shape, numpy.float32) if weight is None else numpy.asarray(weight)
        if weight.shape != shape and weight.shape != (*shape, 1):
            raise Refusal(f"sample_weight has the shape {list(weight.shape)}; the loss has numbers of the shape {list(shape)}, and Telar "
                          "takes a weight for each")
        if self.by_weights:
            total = weight.sum(dtype=numpy.float64)
            weight = weight * (weight.size / total if total else 0.0)
        return as_input(weight.reshape(shape), "f32", "weight")

    def _label(self, y):
        """Labels with the axes that the loss compares: Keras adds or removes a last axis of one item."""
        leaves = tree.flatten(y)
        if len(leaves) != 1:
            raise Refusal(f"the batch has {len(leaves)} tensors of labels; Telar takes one")
        y, shape = numpy.asarray(leaves[0]), self.target.shape
        if y.shape[1:] not in (shape, (*shape, 1)) and (*y.shape[1:], 1) != shape:
            raise Refusal(f"the labels have the shape {list(y.shape)}, but the loss compares {['samples', *shape]}")
        y = y.reshape(len(y), *shape)
        return as_input(as_whole(y, "label"), "i32", "label") if self.target.integer else as_input(y, "f32", "label")


def of_shape(array, shape):
    """An array that has, or lacks, a last axis of one item, as Keras takes it."""
    array = numpy.asarray(array)
    if array.shape[1:] != shape and (array.shape[1:] == (*shape, 1) or (*array.shape[1:], 1) == shape):
        return array.reshape(len(array), *shape)
    return array


def as_whole(array, name):
    """Whole numbers, which may be held as floating-point numbers."""
    array = numpy.asarray(array)
    if array.dtype.kind != "f":
        return array
    whole = array.astype(numpy.int64)
    if not bool((whole == array).all()):
        raise Refusal(f"the input '{name}' is of tokens or classes, but has numbers that are not whole")
    return whole


def require_own_step(model):
    """Raises Refusal for a model that does not make its steps as Keras does."""
    for name in OWN_STEPS:
        if getattr(type(model), name) is not getattr(keras.Model, name):
            raise Refusal(f"{type(model).__name__} has a {name} of its own, which Telar cannot read; give compile() a loss and "
                          "metrics, or train this model with Keras")
    if getattr(model, "_distribute_strategy", None) is not None:
        raise Refusal("the model was made in the scope of a strategy of TensorFlow; make it outside, and choose a strategy of Telar")
    if getattr(model, "run_eagerly", False):
        raise Refusal("run_eagerly=True runs the layers' Python at each step, which Telar does not; compile without it")


def loss_of(model):
    """The one loss of a compiled model: function, options, reduction and weight."""
    if model._compile_loss is None:
        raise Refusal("compile() has no loss")
    if model._compile_loss.built:
        found = [(one.loss, one.loss_weights) for one in model._compile_loss._flat_losses]
    else:
        given = tree.flatten(model.loss)
        weights = tree.flatten(model._compile_loss._user_loss_weights) or [None]
        found = [(keras.losses.get(one), weights[0]) for one in given if one is not None]
    if len(found) != 1:
        raise Refusal(f"the model has {len(found)} losses; Telar trains models with one output and one loss")
    loss, weight = found[0]
    loss = loss if isinstance(loss, keras.losses.Loss) else losses.LossFunctionWrapper(loss)
    function, options, reduction = losses.resolved(loss)
    if reduction in (None, "none"):
        raise Refusal("the loss has no reduction; Telar takes a mean or a sum over the samples")
    return function, options, reduction, 1.0 if weight is None else float(weight)


def extents_of(tensor, array):
    """The shape of an input; what Keras leaves open, as the first batch has it."""
    known = array.shape if len(array.shape) == len(tensor.shape) else tensor.shape
    return (None, *(have if extent is None else extent for extent, have in zip(tensor.shape[1:], known[1:])))


class Capture:
    """Builds Telar's model of a compiled model of Keras.

    x: a batch of inputs, for models whose inputs are not known. weighted: whether samples have weights.
    metrics: those of Keras that the graphs compute, too; only what they can is tracked.
    """

    def __init__(self, model, x=None, weighted=False, metrics=(), is_file=False):
        require_own_step(model)
        self.model, self.x, self.weighted, self.metrics, self.is_file = model, x, weighted, metrics, is_file
        self.function, self.options, self.reduction, self.weight = loss_of(model)
        self.weight_shape = None
        self.trained = list(model.trainable_variables)
        for variable in model.variables:
            if getattr(variable, "constraint", None) is not None:
                raise Refusal(f"the variable '{variable.path}' has a constraint, which Telar does not have")
        for layer in model._flatten_layers():
            if getattr(layer, "mask_zero", False) or isinstance(layer, keras.layers.Masking):
                raise Refusal(f"the layer '{layer.name}' makes a mask of the samples, which Telar does not have (mask_zero=True, "
                              "Masking)")
            if not type(layer).compute_mask.__module__.startswith("keras.src."):
                raise Refusal(f"the layer '{layer.name}' has a compute_mask of its own, and Telar does not have masks")
        if not self.trained:
            raise Refusal("the model has no variable that is trained")

    def captured(self, check=False):
        """check: as Lowering has it."""
        variables = Variables(self.trained)
        lows = [Lowering(variables, training, check) for training in (True, False, False)]
        tracked, forms = self._with_loss(lows[0]), []
        self._with_loss(lows[1], tracked)
        lows[2].graph.output("prediction", lows[2].plain(self._prediction(lows[2], forms)).id)
        variables.require_all(self.trained)
        names = ["loss", *[name for name, _, _ in tracked]]
        built = _native.Model.of_graphs(self.model.name, *[low.graph for low in lows], variables.parameters.described(), names)
        used = {name: value for low in lows for name, value in low.inputs.items()}
        inputs = [(p.name, None if p.name not in used else "i32" if used[p.name].integer else "f32", p.shape[1:]) for p in forms]
        return Captured(built, inputs, self.names, self.target, variables.all, self.reduction != "sum",
                        [metric for _, metric, _ in tracked], not lows[0].draws and not lows[0].statistics,
                        self.weight_shape, self.reduction == "mean_with_sample_weight")

    def _prediction(self, low, forms=None):
        """The model's output. forms: receives its inputs (Pending)."""
        model = self.model
        inner = getattr(model, "_functional", None) or model
        layered = isinstance(inner, FUNCTIONAL) and type(model).call in OWN_CALLS
        if not layered and self.x is None:
            raise Refusal(f"the inputs of {type(model).__name__} are not known before its first batch; train it first")
        batch = tree.flatten(self.x) if self.x is not None else inner.inputs
        pending = [Pending("x" if i == 0 else f"x{i + 1}", extents_of(tensor, array),
                           str(keras.backend.standardize_dtype(tensor.dtype)).startswith(("int", "uint")))
                   for i, (tensor, array) in enumerate(zip(inner.inputs if layered else batch, batch))]
        if forms is not None:
            forms += pending
        if layered:
            found = outputs_of(low, inner.inputs, pending, tree.flatten(inner.outputs), low.training)
        else:
            found = tree.flatten(composed(low, model, [tree.pack_sequence_as(self.x, pending)], {}))
        if len(found) != 1:
            raise Refusal(f"the model has {len(found)} outputs; Telar trains models with one")
        if not isinstance(found[0], (Value, Pending)) or low.number(found[0]).rank < 2:
            raise Refusal("the model's output must be a tensor of at least one number for each sample, [samples, ...]")
        return found[0]

    def _with_loss(self, low, tracked=None):
        """Adds the loss and the metrics to a graph; the metrics that it has: (name, metric, function)."""
        prediction = low.number(self._prediction(low))
        self.names = {"label"}
        self.target = losses.target_of(self.function, prediction.shape)
        label = self._input(low, "label", self.target.integer, self.target.shape)
        found = losses.Losses(low, prediction, label)
        total = found.total(self.function, self.options, functools.partial(self._weights, low) if self.weighted else None)
        total = low.scaled(total, self.weight)
        penalty = losses.penalty_of(low, self.trained)
        if penalty is not None:
            if self.reduction == "sum":
                raise Refusal("the loss is a sum over the samples, and variables have regularizers; use a mean over the samples")
            total = low.add(total, losses.for_each_sample(low, penalty))
        self._accumulate(low, "loss", total)
        if tracked is None:
            tracked = [(f"metric{i}_{m.name}" if m.name == "loss" else m.name, m, self._metric(m)) for i, m in enumerate(self.metrics)]
            tracked = [entry for entry in tracked if entry[2] is not None]
        for name, _, metric in tracked:
            self._accumulate(low, name, metric(low, found))
        return tracked

    def _weights(self, low, shape):
        """An input of weights of losses with this shape of a sample."""
        self.weight_shape = tuple(shape)
        return self._input(low, "weight", False, self.weight_shape)

    def _accumulate(self, low, name, total):
        low.graph.add("accumulate", [low.graph.metric(name), low.reshaped(total, (1,)).id])

    def _input(self, low, name, integer, shape):
        self.names.add(name)
        return Value(low.graph.input(name, "i32" if integer else "f32", [low.SAMPLES, *shape]), (None, *shape), integer)

    def _metric(self, metric):
        """A function of (lowering, losses) that gives a metric's sum, or None: Keras computes it of predictions."""
        plain = keras.metrics.MeanMetricWrapper
        function, options = getattr(metric, "_fn", None), getattr(metric, "_fn_kwargs", {})
        if type(metric).update_state is not plain.update_state or type(metric).result is not keras.metrics.Mean.result:
            return None
        sparse = self.target.integer
        if function is keras.metrics.sparse_categorical_accuracy and sparse:
            return lambda low, found: losses.sparse_accuracy(low, found.prediction, found.label)
        if function is keras.metrics.categorical_accuracy and not sparse and not self.is_file:
            return lambda low, found: losses.sparse_accuracy(
                low, found.prediction, self._input(low, "label_index", True, self.target.shape[:-1]))
        if function is keras.metrics.binary_accuracy and not sparse:
            threshold = options.get("threshold", 0.5)
            return lambda low, found: losses.binary_accuracy(low, found.prediction, found.label, threshold)
        name = getattr(function, "__name__", "")
        is_loss = losses.LOSSES.get(name) is not None and getattr(keras.losses, name, None) is function
        if is_loss and (losses.target_of(function, (None, *self.target.shape)).integer == sparse) and not sparse:
            return lambda low, found: losses.sum_of_means(low, found.each(function, options))
        return None
