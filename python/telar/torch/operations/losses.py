"""Losses: sums and means over the samples."""

from telar.registry import Registry
from telar.torch.operations import elementwise, reductions, shaping
from telar.torch.operations.elementwise import scaled
from telar.torch.values import Total, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates
NONE, MEAN, SUM = 0, 1, 2  # PyTorch's numbers of reductions
TINY = 1e-38  # its logarithm and its inverse are finite


def reduced(low, losses, reduction):
    """The losses of all elements, their mean or their sum."""
    if reduction == NONE:
        return losses
    return reductions.total_of(low, losses, Total.MEAN if reduction == MEAN else Total.SUM)


def negative(low, x):
    return scaled(low, x, -1)


def binary(low, name, a, b):
    """An operation of two tensors, the first of which has the shape of the result."""
    first = low.value(a)
    return Value(low.emit(name, [first, b]), first.shape)


@translates("cross_entropy_loss")
def cross_entropy(low, self, target, weight=None, reduction=MEAN, ignore_index=-100, label_smoothing=0.0):
    if weight is not None:
        raise low.refusal("has weights of classes, by whose sum over the batch the loss is divided")
    logits, labels = classes_last(low, low.value(self)), low.value(target)
    if not labels.integer:
        if label_smoothing:
            raise low.refusal("smooths labels that are probabilities")
        probabilities = classes_last(low, labels)
        losses = binary(low, "mul", reductions.log_normalised(low, logits, logits.rank - 1), probabilities)
        each = low.emit("reduce_sum", [negative(low, losses)], {"axes": [logits.rank - 1], "keep_dims": False})
        return reduced(low, Value(each, logits.shape[:-1]), reduction)
    if reduction == NONE:
        raise low.refusal("gives the losses of the samples (reduction='none'); take their mean or sum")
    return of_labels(low, logits, labels, reduction, label_smoothing)


def classes_last(low, x):
    """[N, C, ...] as [N, ..., C]."""
    if x.rank <= 2:
        return x
    order = [0, *range(2, x.rank), 1]
    return shaping.permuted(low, x, order)


def of_labels(low, logits, labels, reduction, smoothing):
    """The cross-entropy of rows of logits, [..., C], and integers, [...]."""
    items = low.items(logits.shape[:-1])
    if items is None:
        raise low.refusal("does not depend on the samples")
    if logits.rank > 2:
        classes = logits.shape[-1]
        logits = Value(low.emit("reshape", [logits], {"dims": [-1, classes]}), (logits.shape[0] * items, classes))
        labels = Value(low.emit("reshape", [labels], {"dims": [-1]}), (logits.shape[0],), True)
    id = low.emit("cross_entropy", [logits, labels], {"label_smoothing": float(smoothing)})
    total = Value(id, (), False, Total.MEAN if reduction == MEAN else Total.SUM)
    return scaled(low, total, 1 / items) if reduction == MEAN else total


@translates("nll_loss", "nll_loss_nd", "nll_loss2d")
def negative_likelihood(low, self, target, weight=None, reduction=MEAN, ignore_index=-100):
    source = low.logits.get(low.value(self).id)
    if source is None or source[1] != 1:
        raise low.refusal("has an input that is not log_softmax along axis 1")
    return cross_entropy(low, source[0], target, weight, reduction, ignore_index)


@translates("mse_loss")
def squared_error(low, self, target, reduction=MEAN):
    difference = binary(low, "add", self, negative(low, target))
    return reduced(low, binary(low, "mul", difference, difference), reduction)


@translates("l1_loss")
def absolute_error(low, self, target, reduction=MEAN):
    return reduced(low, distance(low, self, target), reduction)


def distance(low, a, b):
    difference = binary(low, "add", a, negative(low, b))
    above = Value(low.emit("relu", [difference]), difference.shape)
    return binary(low, "add", above, Value(low.emit("relu", [negative(low, difference)]), difference.shape))


@translates("smooth_l1_loss")
def smooth_error(low, self, target, reduction=MEAN, beta=1.0):
    if beta == 0:
        return absolute_error(low, self, target, reduction)
    return reduced(low, scaled(low, huber_of(low, distance(low, self, target), beta), 1 / beta), reduction)


@translates("huber_loss")
def huber(low, self, target, reduction=MEAN, delta=1.0):
    return reduced(low, huber_of(low, distance(low, self, target), delta), reduction)


def huber_of(low, d, delta):
    """c · (d − c / 2), where c = min(d, delta)."""
    least = Value(low.emit("clamp", [d], {"least": 0.0, "most": float(delta)}), d.shape)
    return binary(low, "mul", binary(low, "add", d, scaled(low, least, -0.5)), least)


@translates("binary_cross_entropy_with_logits")
def logistic_loss(low, self, target, weight=None, pos_weight=None, reduction=MEAN):
    """softplus(x) − x · y; with weights w of positives (1 + (w − 1) y) · softplus(−x) + (1 − y) · x."""
    x = low.value(self)
    if pos_weight is None:
        losses = binary(low, "add", Value(low.emit("softplus", [x]), x.shape), negative(low, binary(low, "mul", x, target)))
    else:
        more = binary(low, "mul", target, elementwise.scaled(low, low.value(pos_weight - 1.0), 1))
        factor = binary(low, "add", more, 1.0)
        positive = binary(low, "mul", Value(low.emit("softplus", [negative(low, x)]), x.shape), factor)
        rest = binary(low, "mul", x, binary(low, "add", negative(low, target), 1.0))
        losses = binary(low, "add", positive, rest)
    return reduced(low, losses if weight is None else binary(low, "mul", losses, weight), reduction)


@translates("binary_cross_entropy")
def likelihood_loss(low, self, target, weight=None, reduction=MEAN):
    """−y · log p − (1 − y) · log(1 − p). Logarithms are at least −87, PyTorch's −100."""
    p = low.value(self)
    other = binary(low, "add", negative(low, p), 1.0)
    of_true = binary(low, "mul", limited_log(low, p), target)
    of_false = binary(low, "mul", limited_log(low, other), binary(low, "add", negative(low, target), 1.0))
    losses = negative(low, binary(low, "add", of_true, of_false))
    return reduced(low, losses if weight is None else binary(low, "mul", losses, weight), reduction)


def limited_log(low, x):
    limited = Value(low.emit("clamp", [x], {"least": TINY, "most": elementwise.LARGEST}), x.shape)
    return Value(low.emit("log", [limited]), x.shape)


@translates("kl_div")
def divergence(low, self, target, reduction=MEAN, log_target=False):
    x, t = low.value(self), low.value(target)
    logarithm = t if log_target else limited_log(low, t)
    density = Value(low.emit("exp", [t]), t.shape) if log_target else t
    return reduced(low, binary(low, "mul", binary(low, "add", logarithm, negative(low, x)), density), reduction)


@translates("soft_margin_loss")
def soft_margin(low, self, target, reduction=MEAN):
    product = negative(low, binary(low, "mul", self, target))
    return reduced(low, Value(low.emit("softplus", [product]), product.shape), reduction)


@translates("triplet_margin_loss")
def triplet_loss(low, anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=MEAN):
    """max(d(a, p) − d(a, n) + margin, 0), where d is the norm of the difference plus eps."""
    if p != 2 or swap:
        raise low.refusal("has another norm than the second, or swaps")
    difference = binary(low, "add", pair_distance(low, anchor, positive, eps),
                        scaled(low, pair_distance(low, anchor, negative, eps), -1))
    above = binary(low, "add", difference, float(margin))
    return reduced(low, Value(low.emit("relu", [above]), above.shape), reduction)


@translates("pairwise_distance")
def pairwise_distance(low, x1, x2, p=2, eps=1e-6, keepdim=False):
    if p != 2:
        raise low.refusal("is another norm than the second")
    distance = pair_distance(low, x1, x2, eps)
    return shaping.reshaped(low, distance, (*distance.shape, 1)) if keepdim else distance


def pair_distance(low, a, b, eps):
    difference = binary(low, "add", binary(low, "add", a, negative(low, b)), float(eps))
    squares = binary(low, "mul", difference, difference)
    sums = Value(low.emit("reduce_sum", [squares], {"axes": [squares.rank - 1], "keep_dims": False}), squares.shape[:-1])
    return Value(low.emit("pow", [sums], {"exponent": 0.5}), sums.shape)


@translates("margin_ranking_loss")
def ranking_loss(low, input1, input2, target, margin=0.0, reduction=MEAN):
    product = binary(low, "mul", binary(low, "add", input2, negative(low, input1)), target)
    above = binary(low, "add", product, float(margin))
    return reduced(low, Value(low.emit("relu", [above]), above.shape), reduction)
