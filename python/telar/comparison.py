"""Whether a loss and its gradients are those of a framework, up to rounding."""

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
    all_errors = errors(found, right, found)
    whole = norm(right.values())
    limits = {name: PARAMETER_ERROR for name in found if norm([right.get(name, 0.0)]) >= SMALL * whole} | {"": GRADIENT_ERROR}
    return {place: all_errors[place] for place, limit in limits.items() if not all_errors[place] <= limit}


def errors(found, right, names):
    """The relative error of each gradient, and of all together ('')."""
    differences = {name: numpy.asarray(found.get(name, 0.0), dtype=numpy.float64).ravel()
                   - numpy.asarray(right.get(name, 0.0), dtype=numpy.float64).ravel() for name in names}
    norms = {name: norm([right.get(name, 0.0)]) for name in names}
    result = {name: ratio(norm([differences[name]]), norms[name]) for name in names}
    result[""] = ratio(norm(differences.values()), norm([right.get(name, 0.0) for name in names]))
    return result


def ratio(difference, whole):
    return 0.0 if difference == 0 else difference / whole if whole > 0 else numpy.inf


def norm(arrays):
    return float(numpy.sqrt(sum(numpy.square(numpy.asarray(a, dtype=numpy.float64)).sum() for a in arrays)))
