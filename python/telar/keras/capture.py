"""A compiled model of Keras as a model of Telar."""

import dataclasses
import functools
import math

import keras
import numpy
from keras import tree

from telar import _native
from telar.keras import losses
from telar.keras.lowering import Lowering
from telar.keras.values import Batch, Pending, Refusal, Value
from telar.keras.variables import Variables
from telar.keras.walking import OWN_CALLS, composed, dtype_of, with_masks
from telar.loaded import as_input

FUNCTIONAL = keras.src.models.functional.Functional
OWN_STEPS = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics")


@dataclasses.dataclass
class Captured:
    """A model of Telar, and how it belongs to that of Keras.

    inputs: name, element type, shape of a sample, and Keras's element type of each input of the model, in Keras's order; the
    element type of those that are not used is None.
    names: of the inputs of the graphs. targets: what the losses compare the outputs with (telar.keras.losses.Target), by
    their position among the outputs. outputs: the shape of a sample of each; their predictions are one after another.
    variables: by name in Telar (telar.keras.variables.Held).
    mean: whether the loss is a mean over the samples, not their sum. tracked: metrics of Keras whose sums follow the
    loss in the graphs' metrics, each with its output, or None. alike: whether training and evaluation compute the same
    prediction. weights: by output, of the losses that have some: their shape for a sample, the loss's reduction, and whether
    they are multiplied by the number of samples.
    masks: by output, functions that give them of a telar.keras.values.Batch. prepared: what Keras computes of a batch for the graphs
    of training and of evaluation: functions of a Batch and the element type, by name.
    """

    model: object
    inputs: list
    names: set
    targets: dict
    outputs: list
    variables: dict
    mean: bool
    tracked: list
    alike: bool
    weights: dict
    masks: dict
    prepared: tuple

    def arrays(self, x, y=None, weights=None, training=False):
        """A batch as arrays by the names of the graphs' inputs. weights: of the samples, by output; training: for which graph."""
        found = {}
        given = tree.flatten(x)
        if len(given) != len(self.inputs):
            raise Refusal(f"the batch has {len(given)} inputs, but the model has {len(self.inputs)}")
        for (name, dtype, shape, _), array in zip(self.inputs, given):
            if dtype is not None:
                found[name] = as_input(as_whole(array, name) if dtype == "i32" else of_shape(array, shape), dtype, name)
        prepared = self.prepared[0 if training else 1]
        if prepared:
            batch = self._batch(given)
            found |= {name: as_input(numpy.asarray(compute(batch)), dtype, name) for name, (compute, dtype) in prepared.items()}
        if y is None:
            return found
        labels = tree.flatten(y)
        if len(labels) != len(self.outputs):
            raise Refusal(f"the batch has {len(labels)} tensors of labels, but the model has {len(self.outputs)} outputs; give one for each")
        size = len(given[0])
        masks = self.masks_of(given)
        for output, target in self.targets.items():
            name, mask = label_name(output), masks.get(output)
            found[name] = self._label(labels[output], target, name)
            if f"{name}_index" in self.names:
                found[f"{name}_index"] = found[name].argmax(-1).astype(numpy.int32)
            mask_name, weight_name = of_output("mask", output), of_output("weight", output)
            if mask_name in self.names:
                found[mask_name] = mask.astype(numpy.float32)
                for integers in {name, f"{name}_index"} & found.keys():
                    if found[integers].dtype == numpy.int32:
                        found[integers] = numpy.where(mask, found[integers], 0).astype(numpy.int32)
            if weight_name in self.names:
                shape, reduction, times_samples = self.weights[output]
                given_weight = losses.weights_of((size, *shape), reduction, (weights or {}).get(output), mask)
                found[weight_name] = as_input(given_weight * numpy.float32(size if times_samples else 1), "f32", weight_name)
        return found

    def masks_of(self, given):
        """Which numbers of the losses count, by output: boolean arrays. given: the batch's inputs."""
        if not self.masks:
            return {}
        batch = self._batch(given)
        return {output: numpy.asarray(mask(batch)) != 0 for output, mask in self.masks.items()}

    def _batch(self, given):
        return Batch({name: of_shape(array, shape).astype(dtype) for (name, _, shape, dtype), array in zip(self.inputs, given)}, len(given[0]))

    def counts(self, arrays):
        """By how much each of the metrics counts a batch: its samples, or of each the part that its mask leaves."""
        size = len(next(iter(arrays.values())))
        found = []
        for _, output in self.tracked:
            mask = arrays.get(of_output("mask", output)) if output is not None else None
            found.append(size if mask is None else float(mask.mean(axis=tuple(range(1, mask.ndim)), dtype=numpy.float64).sum()))
        return found

    def _label(self, y, target, name):
        """Labels with the axes that the loss compares: Keras adds or removes a last axis of one item."""
        y, shape = numpy.asarray(y), target.shape
        if y.shape[1:] not in (shape, (*shape, 1)) and (*y.shape[1:], 1) != shape:
            raise Refusal(f"the labels have the shape {list(y.shape)}, but the loss compares {['samples', *shape]}")
        y = y.reshape(len(y), *shape)
        return as_input(as_whole(y, name), "i32", name) if target.integer else as_input(y, "f32", name)

    def of_model(self, arrays):
        """Of a batch's arrays in evaluation, the inputs of the model."""
        return {name: arrays[name] for name in (*(name for name, dtype, *_ in self.inputs if dtype is not None), *self.prepared[1])}

    def apart(self, prediction):
        """The predictions of each output."""
        if len(self.outputs) == 1:
            return [prediction]
        ends = numpy.cumsum([math.prod(shape) for shape in self.outputs])[:-1]
        return [part.reshape(len(part), *shape) for part, shape in zip(numpy.split(prediction, ends, axis=1), self.outputs)]


def of_output(name, output):
    """The name of an input that an output has: its labels, its mask, the weights of its loss."""
    return name if output == 0 else f"{name}{output + 1}"


def label_name(output):
    return of_output("label", output)


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
        if name in vars(model) or getattr(type(model), name) is not getattr(keras.Model, name):
            raise Refusal(f"{type(model).__name__} has a {name} of its own, which Telar cannot read; give compile() a loss and "
                          "metrics, or train this model with Keras")
    if getattr(model, "_distribute_strategy", None) is not None:
        raise Refusal("the model was made in the scope of a strategy of TensorFlow; make it outside, and choose a strategy of Telar")
    if getattr(model, "run_eagerly", False):
        raise Refusal("run_eagerly=True runs the layers' Python at each step, which Telar does not; compile without it")


@dataclasses.dataclass(frozen=True)
class OutputLoss:
    """A loss of compile(): of which output, where that is among the outputs, the function with its options, its reduction
    and its weight."""

    output: int
    path: tuple
    function: object
    options: dict
    reduction: str
    weight: float


def losses_of(model):
    """The losses of a compiled model. Raises Refusal for those that Telar does not have."""
    if model._compile_loss is None:
        raise Refusal("compile() has no loss")
    if model._compile_loss.built:
        structure = model._compile_loss._y_pred_build_structure
        places = tree.pack_sequence_as(structure, list(range(len(tree.flatten(structure)))))
        found = [(at(places, one.path), one.path, one.loss, one.loss_weights) for one in model._compile_loss._flat_losses]
    else:
        given = [one for one in tree.flatten(model.loss) if one is not None]
        if len(given) > 1:
            raise Refusal("which output each loss belongs to is not known before the first batch; train the model first")
        weights = tree.flatten(model._compile_loss._user_loss_weights) or [None]
        found = [(0, (), keras.losses.get(one), weights[0]) for one in given]
    all_losses = [loss_of(*one) for one in found]
    if len(all_losses) > 1 and any(one.reduction == "sum" for one in all_losses):
        raise Refusal("one of several losses is a sum over the samples; Telar adds means")
    if len({one.output for one in all_losses}) != len(all_losses):
        raise Refusal("an output has several losses; give it one that adds them")
    return all_losses


def loss_of(output, path, loss, weight):
    loss = loss if isinstance(loss, keras.losses.Loss) else losses.LossFunctionWrapper(loss)
    function, options, reduction = losses.resolved(loss)
    if reduction in (None, "none"):
        raise Refusal("the loss has no reduction; Telar takes a mean or a sum over the samples")
    return OutputLoss(output, path, function, options, reduction, 1.0 if weight is None else float(weight))


def at(structure, path):
    for key in path:
        structure = structure[key]
    return structure


def labels_of(model, y):
    """The labels of a batch, in the order of the model's outputs."""
    names = model._compile_loss.output_names
    if isinstance(y, dict) and names and set(names) == set(y) and not isinstance(outputs_structure(model), dict):
        return [y[name] for name in names]
    return tree.flatten(y)


def weights_by_output(all_losses, weight):
    """The weights of the samples by output, which are None, one array for all losses, or as the outputs are."""
    if weight is None:
        return {}
    found = {}
    for one in all_losses:
        try:
            found[one.output] = at(weight, one.path) if tree.is_nested(weight) else weight
        except (IndexError, KeyError, TypeError) as error:
            raise Refusal(f"sample_weight has not the structure of the model's outputs: there is none at {list(one.path)}") from error
    return found


def metrics_of(model):
    """The metrics of compile(), each with the position of its output; weighted ones are as the others, without weights."""
    compiled = model._compile_metrics
    if compiled is None or not compiled.built:
        return []
    structure = outputs_structure(model)
    places = [0] if structure is None else compiled._flatten_y(
        tree.pack_sequence_as(structure, list(range(len(tree.flatten(structure))))))
    flat = zip([*places, *places], [*compiled._flat_metrics, *compiled._flat_weighted_metrics])
    return [(place, metric) for place, several in flat if several for metric in several.metrics]


def outputs_structure(model):
    """Lists and dicts of a model's outputs, or None: it has one, or they are not known."""
    inner = getattr(model, "_functional", None) or model
    return inner._outputs_struct if isinstance(inner, FUNCTIONAL) else None


def extents_of(tensor, array):
    """The shape of an input; what Keras leaves open, as the first batch has it."""
    known = array.shape if len(array.shape) == len(tensor.shape) else tensor.shape
    return (None, *(have if extent is None else extent for extent, have in zip(tensor.shape[1:], known[1:])))


class Capture:
    """Builds Telar's model of a compiled model of Keras.

    x: a batch of inputs, for models whose inputs are not known; y: its labels, by output, or None. weighted: whether samples have
    weights.
    metrics: those of Keras that the graphs compute, too, each with its output; only what they can is tracked.
    bf16: whether the session computes in it.
    """

    def __init__(self, model, x=None, y=None, weighted=False, metrics=(), is_file=False, bf16=False):
        require_own_step(model)
        self.model, self.x, self.y, self.weighted, self.metrics, self.is_file = model, x, y, weighted, metrics, is_file
        self.rounds = bf16 or is_file
        self.losses = losses_of(model)
        self.reduction = self.losses[0].reduction
        self.weights, self.masks = {}, {}
        self.sum_as_mean = False  # whether a sum is computed as the mean of what is multiplied by the number of samples
        self.prepared_x = None  # what Keras computes in place of the first input, if the graphs do not take that
        self.trained = list(model.trainable_variables)
        for variable in model.variables:
            if is_file and getattr(variable, "constraint", None) is not None:
                raise Refusal(f"the variable '{variable.path}' has a constraint, which a file cannot have")
        if not self.trained:
            raise Refusal("the model has no variable that is trained")

    def captured(self, check=False):
        """check: as Lowering has it."""
        variables = Variables(self.trained)
        lows = [Lowering(variables, training, check, self.rounds, self.prepared_x) for training in (True, False, False)]
        tracked, forms = self._with_loss(lows[0]), []
        self._with_loss(lows[1], tracked)
        predictions = [lows[2].plain(one) for one in self._predictions(lows[2], forms)]
        if "x" not in lows[0].inputs and lows[0].prepared.keys() & lows[0].inputs.keys():
            self.prepared_x = min(lows[0].prepared.keys() & lows[0].inputs.keys())
            return self.captured(check)
        if self.reduction == "sum" and lows[0].statistics and not self.sum_as_mean:  # statistics are divided by the samples, as a mean is
            if self.is_file:
                raise Refusal("the loss is a sum over the samples, and the model has a batch norm; a file takes a mean with it")
            self.sum_as_mean = True
            return self.captured(check)
        outputs = [one.shape[1:] for one in predictions]
        if len(predictions) > 1:
            predictions = [lows[2].joined([lows[2].reshaped(one, (None, math.prod(one.shape[1:]))) for one in predictions], 1)]
        lows[2].graph.output("prediction", predictions[0].id)
        variables.require_all(self.trained)
        prepared = tuple({name: (low.prepared[name].compute, "i32" if value.integer else "f32") for name, value in low.inputs.items()
                          if name in low.prepared} for low in lows[::2])
        of_training = any(low.prepared[name].of_training for low in lows for name in low.inputs if name in low.prepared)
        if self.is_file and (prepared[0] or prepared[1]):
            raise Refusal(f"Keras computes the input {next(iter(prepared[0] | prepared[1]))} of each batch, by a layer that Telar does not have, "
                          "and a file has no such layer; train on prepared samples, or save with Keras")
        names = ["loss", *[name for name, *_ in tracked]]
        built = _native.Model.of_graphs(self.model.name, *[low.graph for low in lows], variables.parameters.described(), names)
        used = {name: value for low in lows for name, value in low.inputs.items()}
        inputs = [(p.name, None if p.name not in used else "i32" if used[p.name].integer else "f32", p.shape[1:], dtype_of(p)) for p in forms]
        return Captured(built, inputs, self.names, self.targets, outputs, variables.all, self.reduction != "sum" or self.sum_as_mean,
                        [(metric, output) for _, metric, output, _ in tracked], not (lows[0].draws or lows[0].statistics or of_training),
                        self.weights, self.masks, prepared)

    def _predictions(self, low, forms=None):
        """The model's outputs. forms: receives its inputs (Pending)."""
        model = self.model
        inner = getattr(model, "_functional", None) or model
        layered = isinstance(inner, FUNCTIONAL) and type(model).call in OWN_CALLS
        if not layered and self.x is None:
            raise Refusal(f"the inputs of {type(model).__name__} are not known before its first batch; train it first")
        batch = tree.flatten(self.x) if self.x is not None else inner.inputs
        pending = []
        for i, (tensor, array) in enumerate(zip(inner.inputs if layered else batch, batch)):
            dtype = keras.backend.standardize_dtype(tensor.dtype)
            first = "x" if self.prepared_x is None else "x1"
            pending.append(Pending(first if i == 0 else f"x{i + 1}", extents_of(tensor, array), dtype.startswith(("int", "uint")), dtype == "bool"))
        if forms is not None:
            forms += pending
        given = tree.pack_sequence_as(inner.inputs if layered else self.x, pending)
        found = tree.flatten(with_masks(low, model, [given], {}, composed))
        if len(found) > 1 and not layered:
            raise Refusal(f"the model has a call of its own with {len(found)} outputs; Telar knows several outputs of functional models")
        for one in found:
            if not isinstance(one, (Value, Pending)) or low.number(one).rank < 2:
                raise Refusal("the model's output must be a tensor of at least one number for each sample, [samples, ...]")
        return [low.number(one) for one in found]

    def _with_loss(self, low, tracked=None):
        """Adds the losses and the metrics to a graph; the metrics that it has: (name, metric, function)."""
        predictions = self._predictions(low)
        self.names, self.targets, found, totals = set(), {}, {}, []
        for one in self.losses:
            prediction = predictions[one.output]
            target = self.targets[one.output] = losses.target_of(
                one.function, prediction.shape, None if self.y is None else numpy.shape(self.y[one.output]))
            label = self._input(low, label_name(one.output), target.integer, target.shape)
            found[one.output] = losses.Losses(low, prediction, label)
            self._require_mask_of_batch(prediction.mask, one.output)
            weights = functools.partial(self._weights, low, one, prediction.mask)
            weights = weights if self.weighted or self.sum_as_mean or prediction.mask is not None else None
            totals.append(found[one.output].total(one.function, one.options, one.reduction, weights))
        total = low.scaled(totals[0], self.losses[0].weight)
        for one, more in zip(self.losses[1:], totals[1:]):
            total = low.add(total, low.scaled(more, one.weight))
        penalty = losses.penalty_of(low, self.trained)
        if penalty is not None:
            if self.reduction == "sum":
                raise Refusal("the loss is a sum over the samples, and variables have regularizers; use a mean over the samples")
            total = low.add(total, losses.for_each_sample(low, penalty))
        self._accumulate(low, "loss", total)
        if tracked is None:
            tracked = self._tracked()
        for name, _, _, metric in tracked:
            self._accumulate(low, name, metric(low, found, totals))
        return tracked

    def _require_mask_of_batch(self, mask, output):
        """A mask divides the loss by its number in the batch, which must be known before the batch is divided."""
        if mask is None:
            return
        if self.is_file:
            raise Refusal("the output has a mask, by whose number in a batch the loss is divided, which a file cannot say; stop the mask before "
                          "the output, or save with Keras")
        if mask.of_batch is None:
            raise Refusal("the output has a mask that depends on what the model computes, so the loss is divided by a number that the batch "
                          "alone does not give; make the mask of the inputs")
        self.masks[output] = mask.of_batch

    def _tracked(self):
        """The metrics that the graphs have: (name, metric of Keras, its output or None, function that gives its sum)."""
        tracked = []
        for i, metric in enumerate(self.model._compile_loss.metrics):  # of each of several losses
            tracked.append((f"loss{i + 1}", metric, None, lambda low, found, totals, i=i: totals[i]))
        several = len(self.losses) > 1
        for i, (output, metric) in enumerate(self.metrics):
            function = self._metric(metric, output) if output in self.targets else None
            if function is not None:
                taken = {"loss", *(other for other, *_ in tracked)}
                name = f"metric{i}_{metric.name}" if several or metric.name in taken else metric.name
                tracked.append((name, metric, output, functools.partial(self._of_output, function, output)))
        return tracked

    def _weights(self, low, loss, mask, shape):
        """An input of weights of losses with this shape of a sample."""
        if mask is not None and tuple(mask.shape[1:]) != tuple(shape):
            raise Refusal(f"the output has a mask of the shape {list(mask.shape)}, but its loss gives {[None, *shape]}")
        self.weights[loss.output] = (tuple(shape), loss.reduction, self.sum_as_mean)
        return self._input(low, of_output("weight", loss.output), False, tuple(shape))

    def _of_output(self, metric, output, low, found, totals):
        """The sum of an output's metric, of what its mask leaves."""
        shape, *_ = self.weights.get(output, (None,))
        mask = self._input(low, of_output("mask", output), False, shape) if output in self.masks else None
        return metric(low, found[output], mask)

    def _accumulate(self, low, name, total):
        low.graph.add("accumulate", [low.graph.metric(name), low.reshaped(total, (1,)).id])

    def _input(self, low, name, integer, shape):
        """An input that is not the model's; several may ask for it."""
        self.names.add(name)
        if name not in low.fed:
            id = low.graph.input(name, "i32" if integer else "f32", [low.SAMPLES, *shape])
            low.fed[name] = Value(id, (None, *shape), integer)
        return low.fed[name]

    def _metric(self, metric, output):
        """A function of (lowering, losses) that gives a metric's sum, or None: Keras computes it of predictions."""
        target = self.targets[output]
        plain = keras.metrics.MeanMetricWrapper
        function, options = getattr(metric, "_fn", None), getattr(metric, "_fn_kwargs", {})
        if type(metric).update_state is not plain.update_state or type(metric).result is not keras.metrics.Mean.result:
            return None
        sparse = target.integer
        if function is keras.metrics.sparse_categorical_accuracy and sparse:
            return lambda low, found, mask: losses.sparse_accuracy(low, found.prediction, found.label, mask)
        if function is keras.metrics.categorical_accuracy and not sparse and not self.is_file:
            return lambda low, found, mask: losses.sparse_accuracy(
                low, found.prediction, self._input(low, f"{label_name(output)}_index", True, target.shape[:-1]), mask)
        if function is keras.metrics.binary_accuracy and not sparse:
            threshold = options.get("threshold", 0.5)
            return lambda low, found, mask: losses.binary_accuracy(low, found.prediction, found.label, mask, threshold)
        name = getattr(function, "__name__", "")
        is_loss = losses.LOSSES.get(name) is not None and getattr(keras.losses, name, None) is function
        if is_loss and (losses.target_of(function, (None, *target.shape)).integer == sparse) and not sparse:
            return lambda low, found, mask: losses.sum_of_means(low, low.plain(found.each(function, options)), mask)
        return None
