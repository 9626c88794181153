"""Cross-entropies that divide by what counts in a batch, such as labels that are not ignored, of which workers have parts.

A mean over the labels that count is no mean of the parts' means. So workers divide by the divisor of the whole batch, which
they add up in the middle of a step, and a part's loss is such that the mean over the samples is that of the whole batch.
"""

import inspect
import threading

import torch
from torch.nn import functional as F

from telar.torch.values import Refusal

COUNTING = {F.cross_entropy, F.nll_loss}


def divisor_of(target, weight, ignore_index):
    """How many labels count, or the sum of their classes' weights."""
    labels = target[target != ignore_index]
    return float(len(labels) if weight is None else weight[labels].double().sum())


def weight_of(loss, batch):
    """How much a batch's mean loss counts among those of other batches: what the loss divides by, or the number of samples."""
    keywords = getattr(loss, "keywords", {})  # of a functools.partial
    if getattr(loss, "func", loss) in COUNTING:
        target, mean = batch[-1], keywords.get("reduction", "mean") == "mean"
        given = keywords.get("weight"), keywords.get("ignore_index", -100)
    elif isinstance(loss, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)):
        target, mean, given = batch[-1], loss.reduction == "mean", (loss.weight, loss.ignore_index)
    else:
        return len(batch[0])
    return divisor_of(target, *given) if mean and not target.is_floating_point() else len(batch[0])


class DividedByAll(torch.overrides.TorchFunctionMode):
    """Gives means over labels that count the divisor that divisor(number of the call, own divisor) returns, and a factor."""

    def __init__(self, divisor, factor=1.0):
        super().__init__()
        self._divisor, self._factor, self.calls = divisor, factor, 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        if function not in COUNTING:
            return function(*arguments, **keywords)
        given = inspect.signature(function).bind(*arguments, **keywords)
        given.apply_defaults()
        target, weight = given.arguments["target"], given.arguments["weight"]
        if given.arguments["reduction"] != "mean" or target.is_floating_point():  # probabilities of classes are divided by the samples
            return function(*arguments, **keywords)
        own = divisor_of(target, weight, given.arguments["ignore_index"])
        number, self.calls = self.calls, self.calls + 1
        given.arguments["reduction"] = "sum"
        return function(*given.args, **given.kwargs) * self._factor / torch.tensor(self._divisor(number, own))


class Meeting:
    """Where the workers of a step add up the divisors of their parts. samples: of the whole batch."""

    def __init__(self, samples):
        self._samples, self._changed = samples, threading.Condition()
        self._parts = {}  # number of a call -> {first sample of a part: (its samples, its divisor)}
        self._ended = {}  # first sample of a part -> its calls; None if it failed

    def divisor(self, number, own, first, samples):
        """Waits for the other parts; the sum of all."""
        with self._changed:
            parts = self._parts.setdefault(number, {})
            parts[first] = samples, own
            self._changed.notify_all()
            while sum(size for size, _ in parts.values()) < self._samples:
                if any(end is None or end <= number for end in self._ended.values()):
                    raise Refusal("a worker has not computed a cross-entropy that another one has, so what counts in the whole batch is "
                                  "not known; choose the strategy single")
                self._changed.wait()
            return sum(own for _, (_, own) in sorted(parts.items()))

    def end(self, first, calls):
        """A part's loss is computed. calls: how many cross-entropies it has; None if it failed."""
        with self._changed:
            self._ended[first] = calls
            self._changed.notify_all()


class OfAPart(DividedByAll):
    """Of samples of a batch of `size`, from the first on, which meets the other parts."""

    def __init__(self, meeting, first, samples, size):
        super().__init__(lambda number, own: meeting.divisor(number, own, first, samples), size / samples)
        self._meeting, self._first = meeting, first

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        self._meeting.end(self._first, None if kind else self.calls)
