"""Losses and metrics of compile() as sums over the samples.

A loss of Keras is a mean over all elements of a batch; the graph has the sum over its samples.
"""

import dataclasses
import math

import keras
import numpy
from keras.src.losses.losses import LossFunctionWrapper

from telar.keras import activations
from telar.keras.operations import translates
from telar.keras.values import Refusal, Value


@dataclasses.dataclass(frozen=True)
class Target:
    """What a loss compares the prediction with.

    integer: labels are numbers of classes. shape: of one sample.
    """

    integer: bool
    shape: tuple


def resolved(loss):
    """The loss function of compile(), its arguments and its reduction."""
    if isinstance(loss, LossFunctionWrapper) and type(loss).call is LossFunctionWrapper.call:
        return loss.fn, dict(loss._fn_kwargs), loss.reduction
    return loss.call, {}, loss.reduction


def target_of(function, prediction, given=None):
    """The form of the labels for a prediction of this shape. given: the shape of a batch's labels, if one is known.

    A function of the user's own may take labels of another shape than the prediction's: they are numbers of classes.
    """
    if function is keras.losses.sparse_categorical_crossentropy:
        return Target(True, prediction[1:-1])
    wanted = tuple(prediction[1:])
    if given is None or is_of_keras(function) or given[1:] in (wanted, (*wanted, 1)) or (*given[1:], 1) == wanted:
        return Target(False, wanted)
    return Target(True, tuple(given[1:]))


def is_of_keras(function):
    return str(getattr(function, "__module__", "")).startswith("keras.src.")


class Losses:
    """Translates a loss function for one graph."""

    def __init__(self, low, prediction, label):
        self.low, self.prediction, self.label = low, low.number(prediction), label

    def each(self, function, options):
        """The losses of all elements: [N, ...]."""
        name = getattr(function, "__name__", "")
        if getattr(keras.losses, name, None) is function and name in LOSSES:
            return LOSSES[name](self, **options)
        from telar.keras.walking import traced

        given = (lambda y, p: function(y, p, **options)) if options else function
        return traced(self.low, given, [self.label, self.prediction], {}, f"the loss {name or type(function).__name__}")

    def total(self, function, options, reduction, weight):
        """The sum over the samples of their means over the other axes, or of their sums if the reduction is a sum.

        weight: gives the weights of such losses, or None.
        """
        low = self.low
        if weight is None and function is keras.losses.sparse_categorical_crossentropy:
            rows = self._rows(options)
            total = Value(low.emit("cross_entropy", rows, {"label_smoothing": 0.0}), ())
            return total if reduction == "sum" else low.scaled(total, 1 / int(numpy.prod(self.label.shape[1:])))
        each = self.each(function, options)
        if each.shape[:1] != (None,):
            raise Refusal("the loss does not give a number for each sample, so it cannot be divided among workers")
        if weight is not None:
            each = low.mul(low.plain(each), weight(each.shape[1:]))
        if each.rank > 1:
            each = low.reduced("reduce_sum" if reduction == "sum" else "reduce_mean", each, range(1, each.rank))
        return low.reduced("reduce_sum", each, [0])

    def mean_squares(self, difference):
        return self.low.reduced("reduce_mean", self.low.mul(difference, difference), [difference.rank - 1])

    def difference(self):
        return self.low.sub(self.prediction, self.label)

    def logits_of(self, from_logits):
        """The logits from which Keras computes the loss, or None: by probabilities.

        With TensorFlow, Keras takes the input of the softmax or sigmoid that made the prediction; of either, for any
        cross-entropy.
        """
        if keras.backend.backend() == "tensorflow" and self.prediction.logits is not None:
            return self.prediction.logits
        return self.prediction if from_logits else None

    def log_probabilities(self, from_logits):
        low = self.low
        logits = self.logits_of(from_logits)
        if logits is not None:
            return activations.log_softmax(low, logits)
        return self.log_of_probabilities()

    def log_of_probabilities(self):
        """log of p / Σ p, within Keras's epsilon of 0 and 1."""
        low, epsilon = self.low, keras.config.epsilon()
        total = low.reduced("reduce_sum", self.prediction, [self.prediction.rank - 1], keepdims=True)
        shares = low.mul(self.prediction, low.power(total, -1.0))
        return low.unary("log", activations.clamped(low, shares, epsilon, 1 - epsilon))

    def _rows(self, options):
        """Rows of logits and their labels, for the sparse cross-entropy by one operation."""
        low = self.low
        check_sparse(options)
        logits = self.logits_of(options.get("from_logits", False))
        logits = low.plain(self.log_of_probabilities() if logits is None else logits)
        return low.reshaped(logits, (None, logits.shape[-1])), low.reshaped(self.label, (None,))


def check_sparse(options):
    if options.get("ignore_class") is not None:
        raise Refusal("the loss has an ignore_class, by whose number in the batch it is divided")
    if options.get("axis", -1) != -1:
        raise Refusal("the loss has its classes along another axis than the last one")


def sparse_categorical_crossentropy(losses, **options):
    low = losses.low
    rows = low.emit("cross_entropy_of_rows", losses._rows(options), {"label_smoothing": 0.0})
    return low.reshaped(Value(rows, (None,)), losses.label.shape)


def categorical_crossentropy(losses, from_logits=False, label_smoothing=0.0, axis=-1):
    low, label = losses.low, losses.label
    check_sparse({"axis": axis})
    if label_smoothing:
        label = low.add(low.scaled(label, 1 - label_smoothing), label_smoothing / label.shape[-1])
    log = losses.log_probabilities(from_logits)
    return low.scaled(low.reduced("reduce_sum", low.mul(log, label), [log.rank - 1]), -1)


def binary_crossentropy(losses, from_logits=False, label_smoothing=0.0, axis=-1):
    low, label = losses.low, losses.label
    if label_smoothing:
        label = low.add(low.scaled(label, 1 - label_smoothing), 0.5 * label_smoothing)
    each = binary_crossentropies(losses, label, from_logits)
    return low.reduced("reduce_mean", each, [each.rank - 1])


def binary_crossentropies(losses, label, from_logits):
    """Of logits softplus(x) − x · y; of probabilities −y · log p − (1 − y) · log(1 − p)."""
    low, logits = losses.low, losses.logits_of(from_logits)
    if logits is not None:
        return low.sub(low.unary("softplus", logits), low.mul(logits, label))
    epsilon = keras.config.epsilon()
    p = activations.clamped(low, losses.prediction, epsilon, 1 - epsilon)
    of_true = low.mul(low.unary("log", p), label)
    of_false = low.mul(low.unary("log", low.add(low.scaled(p, -1), 1.0)), low.add(low.scaled(label, -1), 1.0))
    return low.scaled(low.add(of_true, of_false), -1)


@translates("BinaryCrossentropy")
def of_binary_operation(low, op, target, output):
    return binary_crossentropies(Losses(low, output, target), target, op.from_logits)


@translates("CategoricalCrossentropy")
def of_categorical_operation(low, op, target, output):
    return categorical_crossentropy(Losses(low, output, target), op.from_logits, axis=-1 if op.axis % output.rank == output.rank - 1 else op.axis)


@translates("SparseCategoricalCrossentropy")
def of_sparse_operation(low, op, target, output):
    return sparse_categorical_crossentropy(Losses(low, output, low.tokens(target)), from_logits=op.from_logits,
                                           axis=-1 if op.axis % output.rank == output.rank - 1 else op.axis)


@translates("OneHot")
def one_hot(low, op, x):
    tokens = low.tokens(x)
    if op.axis not in (-1, tokens.rank) or op.sparse:
        raise low.refusal("has its classes along another axis than the last one, or is sparse")
    table = low.constant(numpy.eye(op.num_classes, dtype=numpy.float32))
    return Value(low.emit("embedding", [tokens, table]), (*tokens.shape, op.num_classes))


def mean_squared_error(losses):
    return losses.mean_squares(losses.difference())


def mean_absolute_error(losses):
    difference = losses.difference()
    return losses.low.reduced("reduce_mean", activations.absolute(losses.low, difference), [difference.rank - 1])


def huber(losses, delta=1.0):
    """c · (d − c / 2) for a distance d, where c = min(d, delta)."""
    low = losses.low
    distance = activations.absolute(low, losses.difference())
    limited = activations.clamped(low, distance, 0, delta)
    each = low.mul(low.sub(distance, low.scaled(limited, 0.5)), limited)
    return low.reduced("reduce_mean", each, [each.rank - 1])


def poisson(losses):
    low = losses.low
    log = low.unary("log", low.add(losses.prediction, keras.config.epsilon()))
    each = low.sub(losses.prediction, low.mul(losses.label, log))
    return low.reduced("reduce_mean", each, [each.rank - 1])


def kl_divergence(losses):
    low, epsilon = losses.low, keras.config.epsilon()
    y, p = (activations.clamped(low, x, epsilon, 1) for x in (losses.label, losses.prediction))
    each = low.mul(y, low.sub(low.unary("log", y), low.unary("log", p)))
    return low.reduced("reduce_sum", each, [each.rank - 1])


LOSSES = {function.__name__: function for function in (
    sparse_categorical_crossentropy, categorical_crossentropy, binary_crossentropy, mean_squared_error,
    mean_absolute_error, huber, poisson, kl_divergence)}


def penalty_of(low, variables):
    """The sum of the regularizers of variables, or None."""
    total = None
    for variable in variables:
        rule = variable.regularizer
        if rule is None:
            continue
        if type(rule) not in (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2):
            raise Refusal(f"the variable '{variable.path}' has the regularizer {type(rule).__name__}; Telar has L1, L2 and L1L2")
        held = low.variables.of(variable)
        if held is None:
            continue  # the graph does not use it, which is refused elsewhere
        value = low.parameter(variable, held.layout)
        axes = list(range(value.rank))
        for factor, each in ((float(getattr(rule, "l1", 0.0)), activations.absolute),
                             (float(getattr(rule, "l2", 0.0)), lambda low, x: low.mul(x, x))):
            if factor:
                term = low.scaled(low.reduced("reduce_sum", each(low, value), axes), factor)
                total = term if total is None else low.add(total, term)
    return total


def for_each_sample(low, number):
    """A number that does not depend on the samples, once for each of them."""
    return low.reduced("reduce_sum", low.mul(low.ones((None,)), low.reshaped(number, (1,))), [0])


def weights_of(shape, reduction, given, mask):
    """The weights by which the losses [N, …] are multiplied, as Keras has them, of a mean over all of these.

    given: of the samples, or None. mask: which losses count, a boolean array, or None. What Keras divides by their sum,
    the sum over the batch, is multiplied by its number here.
    """
    total = math.prod(shape)
    weights = numpy.ones(shape, numpy.float32) if given is None else numpy.asarray(given, dtype=numpy.float32)
    if weights.shape == (*shape, 1):
        weights = weights.reshape(shape)
    if weights.shape[:1] != shape[:1] or weights.ndim != len(shape) or any(
            have not in (1, want) for have, want in zip(weights.shape, shape)):
        raise Refusal(f"sample_weight has the shape {list(weights.shape)}; the loss has numbers of the shape {list(shape)}, and Telar "
                      f"takes a weight for each, or {[shape[0], *[1] * (len(shape) - 1)]}")
    divisor = None
    if mask is not None:
        weights = weights * mask
        divisor = mask.sum() if reduction in ("mean", "sum_over_batch_size") else None
    if reduction == "mean_with_sample_weight" and (given is not None or mask is not None):
        divisor = weights.sum(dtype=numpy.float64)
    if divisor is not None:
        weights = weights * (total / divisor if divisor else 0.0)
    return numpy.broadcast_to(weights, shape)


# Metrics: sums over the samples of Keras's means over the other elements. A mask leaves some of these elements.

def sparse_accuracy(low, prediction, label, mask):
    """What is masked has the label 0, and another prediction in place of the model's."""
    prediction = low.plain(prediction)
    if mask is not None:
        if prediction.shape[-1] < 2:
            raise Refusal("an accuracy of one class has a mask; leave it out of compile()")
        wrong = numpy.zeros(prediction.shape[-1], numpy.float32)
        wrong[-1] = 1.0
        truth = low.reshaped(mask, (*mask.shape, 1))
        prediction = low.add(low.mul(prediction, truth), low.mul(low.negation(truth), wrong))
    rows = low.reshaped(prediction, (None, prediction.shape[-1]))
    labels = low.reshaped(label, (None,))
    found = Value(low.emit("top_k_correct", [rows, labels], {"k": 1}), ())
    return low.scaled(found, 1 / int(numpy.prod(prediction.shape[1:-1])))


def binary_accuracy(low, prediction, label, mask, threshold):
    """Of labels that are 0 or 1: whether (p > threshold) − y is 0."""
    above = low.unary("within", prediction, {"least": float(numpy.nextafter(numpy.float32(threshold), numpy.float32(2e38))),
                                             "most": activations.LARGEST})
    right = low.unary("within", low.sub(above, label), {"least": 0.0, "most": 0.0})
    return sum_of_means(low, low.reduced("reduce_mean", right, [right.rank - 1]), mask)


def sum_of_means(low, each, mask):
    each = each if mask is None else low.mul(each, mask)
    each = each if each.rank == 1 else low.reduced("reduce_mean", each, range(1, each.rank))
    return low.reduced("reduce_sum", each, [0])
