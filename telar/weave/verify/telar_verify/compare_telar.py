"""Compares a program whose steps Telar makes with the sequential one. Both make each step from the same values."""
import numpy as np

from . import compare_outputs, compare_samples, compare_steps
from .rows import DIFFERS, EXCLUDED, NOTHING, OK, Row, plural

GRADIENTS = 100  # times the tolerance of processes that all compute with PyTorch: other kernels round differently
CHANGE = 1e-2  # of a step, relative to its norm
NEGLIGIBLE = 1e-5  # of the largest gradient: rounding, whose sign Adam would make a step of


def flat(values):
    return [np.asarray(one, dtype="float64").ravel() for one in values]


def thinned(values, gradient):
    """The elements of which the gradient is known."""
    return values[::max(1, values.size // gradient.size)] if gradient.size else values[:0]


def change_error(before, mine, theirs, gradients):
    """How much a step differs from the sequential one, relative to the sequential change; None if nothing changes."""
    most = max((float(abs(one).max()) for one in gradients if one is not None and one.size), default=0.0)
    off = whole = 0.0
    for start, one, other, gradient in zip(flat(before), flat(mine), flat(theirs), gradients):
        if gradient is None:
            off += float(((one - other) ** 2).sum())
            continue
        start, one, other = (thinned(part, gradient) for part in (start, one, other))
        counts = abs(gradient) > NEGLIGIBLE * most
        off += float((((one - other) ** 2)[counts]).sum())
        whole += float((((other - start) ** 2)[counts]).sum())
    if whole == 0:
        return 0.0 if off == 0 else None
    return (off / whole) ** 0.5


def parameters(woven, single, origin):
    """After each step the parameters are those of the sequential step from the same values."""
    mine, theirs = compare_steps.steps_of(woven), compare_steps.steps_of(single)
    excluded = dict(single["excluded"], **woven["excluded"])
    if not mine:
        return Row("parameters", DIFFERS, "Telar makes no step, so nothing is trained")
    if excluded:
        return Row("parameters", EXCLUDED, "; ".join(
            "%s (%s)" % (reason, origin.of(place)) for reason, place in sorted(excluded.items())))
    worst, compared = 0.0, 0
    for key in sorted(mine, key=lambda key: (key[1], key[0])):
        if key not in theirs:
            continue
        before = mine[key]["started_values"] if key[1] == 0 else mine[key[0], key[1] - 1]["values"]
        if key[1] > 0 and mine[key]["started"] != mine[key[0], key[1] - 1]["digests"]:
            continue  # the script has changed them since
        off = change_error(before, mine[key]["values"], theirs[key]["values"], theirs[key]["gradients"])
        if off is None or off > CHANGE:
            return Row("parameters", DIFFERS, "step %d, at %s, changes them otherwise than sequentially%s" % (
                key[1] + 1, origin.of(theirs[key]["place"], False), "" if off is None else ": by %.1e of the change" % off))
        worst, compared = max(worst, off), compared + 1
    if not compared:
        return Row("parameters", NOTHING, "no step is common")
    return Row("parameters", OK, "after each of %s as sequentially (largest difference %.0e of a step)" % (
        plural(compared, "step"), worst))


def samples(woven, single, plan, origin):
    if any(one["trained"] for one in woven["passes"] + single["passes"]):
        return compare_samples.samples([woven], single, plan, origin)
    return Row("samples", NOTHING, "no loop over a loader trains; the gradients are those of the sequential samples")


def rows(woven, single, plan, folders, origin):
    noisy = bool(single["excluded"] or woven["excluded"])
    gradients = compare_steps.gradients([woven], single, plan, origin, GRADIENTS)
    return [
        parameters(woven, single, origin),
        gradients,
        compare_steps.rates([woven], single, plan, origin),
        samples(woven, single, plan, origin),
        compare_samples.evaluation([woven], single, origin),
        compare_outputs.files([woven], single, folders, origin, not noisy),
        compare_outputs.printed([woven], single, noisy, plan, origin),
    ]
