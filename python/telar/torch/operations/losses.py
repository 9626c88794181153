"""Losses: sums and means over the samples."""

import torch

from telar.registry import Registry
from telar.torch.host import HostFunction, HostValue
from telar.torch.operations import elementwise, indexing, reductions, shaping
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
    if not isinstance(weight, (torch.Tensor, type(None))):
        raise low.refusal("has weights of classes that are not constant")
    logits = classes_last(low, low.value(self))
    if not low.node_of("target").meta["val"].is_floating_point():
        return of_labels(low, Labels(low, logits, target, weight, ignore_index, label_smoothing), reduction)
    if label_smoothing:
        raise low.refusal("smooths labels that are probabilities")
    log = reductions.log_normalised(low, logits, logits.rank - 1)
    losses = binary(low, "mul", log, classes_last(low, low.value(target)))
    losses = losses if weight is None else binary(low, "mul", losses, weight)
    each = low.emit("reduce_sum", [negative(low, losses)], {"axes": [logits.rank - 1], "keep_dims": False})
    return reduced(low, Value(each, logits.shape[:-1]), reduction)


def classes_last(low, x):
    """[N, C, ...] as [N, ..., C]."""
    if x.rank <= 2:
        return x
    order = [0, *range(2, x.rank), 1]
    return shaping.permuted(low, x, order)


class Labels:
    """Rows of logits, [N · items, C], and their labels, some of which may be ignored or have weights by their class.

    node: of the labels. weighted: whether rows have weights, of which PyTorch computes those of a batch. are_logarithms: whether
    the "logits" are logarithms of which those of the labels are taken, whatever their exponentials' sum.
    """

    def __init__(self, low, logits, labels, weight, ignore_index, smoothing, are_logarithms=False):
        self.are_logarithms = are_logarithms
        self.low, self.node, self.weight, self.ignore_index, self.smoothing = low, low.node_of("target"), weight, ignore_index, smoothing
        self.shape, self.classes, self.items = logits.shape[:-1], logits.shape[-1], low.items(logits.shape[:-1])
        if self.items is None:
            raise low.refusal("does not depend on the samples")
        self.logits = self._flat(logits, self.classes)
        is_class = 0 <= ignore_index < self.classes
        labels_of = HostFunction(self.node, low.exported, last=low.node)
        has_ignored = lambda batch: bool((labels_of(batch) == ignore_index).any())
        self.weighted = weight is not None or is_class or low.takes_ignored
        if self.weighted and self.node not in low.of_batch:
            raise low.refusal("has weights of classes, or ignores some, and labels that PyTorch cannot compute of the batch alone")
        if not self.weighted and self.node in low.of_batch:
            low.ignored.append(has_ignored)
        self.labels = self._of_host() if self.weighted or isinstance(labels, HostValue) else self._flat(indexing.indices(low, labels))

    def losses(self, smoothing):
        """Of each row, without weights."""
        if self.are_logarithms:
            return self._own_logarithms()
        return Value(self.low.emit("cross_entropy_of_rows", [self.logits, self.labels], {"label_smoothing": float(smoothing)}),
                     (self.logits.shape[0],))

    def _own_logarithms(self):
        """The sum of all logarithms times 1 for the label, else 0."""
        ignored, classes, low = self.ignore_index if self.weighted else None, self.classes, self.low

        def ones(labels, samples):
            known = labels if ignored is None else torch.where(labels == ignored, 0, labels)
            return torch.nn.functional.one_hot(known.reshape(-1), classes).float().reshape(samples, -1, classes)

        if self.node not in low.of_batch:
            raise low.refusal("has an input that is not log_softmax, and labels that PyTorch cannot compute of the batch alone")
        own = self._flat(low.from_batch(self.node, ones, f"one-hot of {classes} without {ignored}", (self.items, classes)), classes)
        sums = low.emit("reduce_sum", [binary(low, "mul", self.logits, own)], {"axes": [1], "keep_dims": False})
        return negative(low, Value(sums, (self.logits.shape[0],)))

    def weighted_losses(self, is_mean):
        """Of each row. is_mean: as parts of the mean over the batch, times the number of samples."""
        low, smoothing = self.low, self.smoothing
        weights = self._of_rows(is_mean, self.weight)
        if self.weight is None or not smoothing:
            return binary(low, "mul", self.losses(smoothing), weights)
        # The smoothed part of a loss has the weights of all classes, and is divided by those of the labels, too.
        log = reductions.log_normalised(low, self.logits, 1)
        all_classes = low.emit("reduce_sum", [binary(low, "mul", log, self.weight)], {"axes": [1], "keep_dims": False})
        even = binary(low, "mul", Value(all_classes, (self.logits.shape[0],)), self._of_rows(is_mean, None))
        own = binary(low, "mul", self.losses(0.0), weights)
        return binary(low, "add", scaled(low, own, 1 - smoothing), scaled(low, even, -smoothing / self.classes))

    def _flat(self, x, *last):
        if x.rank == 1 + len(last):
            return x
        return Value(self.low.emit("reshape", [x], {"dims": [-1, *last]}), (self.shape[0] * self.items, *last), x.integer)

    def _of_host(self):
        """The labels as PyTorch computes them of the batch; if rows have weights, with a class in place of what is ignored."""
        ignored = self.ignore_index if self.weighted else None

        def known(labels, samples):
            return (labels if ignored is None else torch.where(labels == ignored, 0, labels)).reshape(samples, -1)

        return self._flat(self.low.from_batch(self.node, known, f"labels without {ignored}", (self.items,), torch.int64, "label_of_batch"))

    def _of_rows(self, is_mean, of_classes):
        """The weight of each row. is_mean: times the number of samples, divided by the sum of the labels' weights."""
        ignored, weight = self.ignore_index, self.weight

        def of_labels(labels, weight):
            counts = labels != ignored
            return counts.float() if weight is None else weight[torch.where(counts, labels, 0)] * counts

        def of_rows(labels, samples):
            found = of_labels(labels, of_classes)
            if is_mean:
                found = found * (samples / of_labels(labels, weight).sum(dtype=torch.float64)).float()
            return found.reshape(samples, -1)

        named = f"weights of rows, ignored={ignored}, mean={is_mean}, " + " ".join(
            "1" if w is None else repr(w.tolist()) for w in (of_classes, weight))
        return self._flat(self.low.from_batch(self.node, of_rows, named, (self.items,)))


def of_labels(low, of, reduction):
    """The cross-entropy of rows of logits and their labels."""
    give = (lambda: of.weighted_losses(False)) if of.weighted else (lambda: of.losses(of.smoothing))
    if reduction == NONE:
        each = give()
        return each if each.rank == len(of.shape) else shaping.reshaped(low, each, of.shape)
    if of.weighted and reduction == MEAN:
        return Value(reductions.total_of(low, of.weighted_losses(True), Total.SUM).id, (), False, Total.MEAN)
    if of.weighted or of.are_logarithms:
        return reduced(low, give(), reduction)
    id = low.emit("cross_entropy", [of.logits, of.labels], {"label_smoothing": float(of.smoothing)})
    low.summands[id] = [(give, 1.0)]
    total = Value(id, (), False, Total.MEAN if reduction == MEAN else Total.SUM)
    return scaled(low, total, 1 / of.items) if reduction == MEAN else total


@translates("nll_loss", "nll_loss_nd", "nll_loss2d")
def negative_likelihood(low, self, target, weight=None, reduction=MEAN, ignore_index=-100):
    x = low.value(self)
    source = low.logits.get(x.id)
    if source is not None and source[1] == 1:
        return cross_entropy(low, source[0], target, weight, reduction, ignore_index)
    if not isinstance(weight, (torch.Tensor, type(None))):
        raise low.refusal("has weights of classes that are not constant")
    # log_softmax of its own result is the same again, so cross-entropy takes views of it, too.
    is_normalised = low.normalised.get(x.id) == 1
    return of_labels(low, Labels(low, classes_last(low, x), target, weight, ignore_index, 0.0, not is_normalised), reduction)


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
        if not isinstance(pos_weight, torch.Tensor):
            raise low.refusal("has weights of positives that are not constant")
        factor = binary(low, "add", binary(low, "mul", target, pos_weight - 1.0), 1.0)
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
        difference = binary(low, "add", binary(low, "add", x1, negative(low, x2)), float(eps))
        return reductions.other_norm(low, difference, float(p), [difference.rank - 1], keepdim)
    distance = pair_distance(low, x1, x2, eps)
    return shaping.reshaped(low, distance, (*distance.shape, 1)) if keepdim else distance


@translates("cdist")
def distances(low, x1, x2, p=2, compute_mode=None):
    """Of each row of one matrix to each of the other."""
    if p != 2:
        raise low.refusal("has another norm than the second")
    a, b = low.value(x1), low.value(x2)
    first = shaping.reshaped(low, a, (*a.shape[:-1], 1, a.shape[-1]))
    second = shaping.reshaped(low, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    form = tuple(low.form().shape)
    difference = Value(low.emit("add", [first, negative(low, second)]), (*form, a.shape[-1]))
    sums = low.emit("reduce_sum", [binary(low, "mul", difference, difference)], {"axes": [len(form)], "keep_dims": False})
    return reductions.root(low, Value(sums, form), 0.5)


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
