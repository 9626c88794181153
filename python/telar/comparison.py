"""Whether a loss and its gradients are those of a framework, up to rounding."""

import math

import numpy

LOSS_ERROR = 1e-4  # relative
GRADIENT_ERROR = 1e-2  # relative, of the norm over all parameters
PARAMETER_ERROR = 1e-1  # the same of one parameter, if its norm is at least SMALL of the whole
SMALL = 1e-3


def is_same_loss(found, right, allowed=LOSS_ERROR, least=1e-3):
    """Whether two losses differ by rounding only. least: below it, the error is an absolute one."""
    return abs(found - right) <= allowed * max(abs(right), least)


def beyond(found, right):
    """Where gradients differ by more than rounding: by parameter, '' for all together."""
    differences, sizes = squares(found, right, found)
    whole = math.sqrt(sum(sizes.values()) + sum(square(right[name]) for name in right if name not in sizes))
    limits = {name: PARAMETER_ERROR for name in found if math.sqrt(sizes[name]) >= SMALL * whole} | {"": GRADIENT_ERROR}
    all_errors = ratios(differences, sizes)
    return {place: all_errors[place] for place, limit in limits.items() if not all_errors[place] <= limit}


def errors(found, right, names):
    """The relative error of each gradient, and of all together ('')."""
    return ratios(*squares(found, right, names))


def squares(found, right, names):
    """Of each gradient: the square of the norm of the difference, and that of the right one."""
    differences, sizes = {}, {}
    for name in names:
        exact = flat(right.get(name, 0.0))
        differences[name], sizes[name] = square(flat(found.get(name, 0.0)) - exact), square(exact)
    return differences, sizes


def ratios(differences, sizes):
    result = {name: ratio(differences[name], sizes[name]) for name in differences}
    result[""] = ratio(sum(differences.values()), sum(sizes.values()))
    return result


def ratio(difference, whole):
    return 0.0 if difference == 0 else math.sqrt(difference / whole) if whole > 0 else math.inf


def square(array):
    return float(numpy.square(flat(array)).sum())


def flat(array):
    return numpy.asarray(array, dtype=numpy.float64).ravel()
