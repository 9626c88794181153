"""Operations that compute each element by itself."""

import dataclasses
import math

import torch

from telar.registry import Registry
from telar.torch.values import Total, Uniform, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates
LARGEST = 3.4028234663852886e38


def scaled(low, x, factor):
    """factor · x, of a number or a tensor."""
    if isinstance(x, (int, float)):
        return factor * x
    if factor == 1:
        return x
    value = low.value(x)
    result = Value(low.emit("scale", [value], {"factor": float(factor)}), value.shape, False, value.total)
    if value.id in low.summands:
        low.summands[result.id] = [(give, factor * own) for give, own in low.summands[value.id]]
    return result


def times_number(low, x, node, inverse=False):
    """x times a number of the whole batch, or divided by it. Of a sum or mean over the samples, a mean."""
    named = f"inverse={inverse}"
    if not x.total:
        return times_rows(low, x, number_for_samples(low, node, inverse, False, named))
    if x.id not in low.summands:
        raise low.refusal("divides by a number of the batch what is not a sum of the samples' losses")
    is_sum = x.total is Total.SUM
    return total_times(low, x, number_for_samples(low, node, inverse, is_sum, f"{named} times samples={is_sum}"))


def sum_as_mean(low, x, node):
    """A sum over the samples as a mean of what is multiplied by the number of samples. node: an input."""
    if x.id not in low.summands:
        raise low.refusal("adds a sum over the samples to a mean over them; take the mean, or the sum, of both")
    count = low.from_batch(node, lambda value, samples: torch.full((samples,), float(samples)), "the number of samples", ())
    return total_times(low, x, count)


def total_times(low, x, number):
    """The mean whose graph adds what x adds, times a number for each sample."""
    terms = []
    for give, factor in low.summands[x.id]:
        each = scaled(low, times_rows(low, give(), number), factor)
        terms.append(low.emit("reduce_sum", [each], {"axes": list(range(each.rank)), "keep_dims": False}))
    total = terms[0]
    for term in terms[1:]:
        total = low.graph.add("add", [total, term])[0]
    return Value(total, (), False, Total.MEAN)


def number_for_samples(low, node, inverse, times_samples, named):
    """A number of the batch, or its inverse, once for each sample: [N]."""

    def each(value, samples):
        number = value.to(torch.float64).reshape(1)
        number = (1 / number if inverse else number) * (samples if times_samples else 1)
        return number.float().expand(samples)

    return low.from_batch(node, each, named, ())


def times_rows(low, x, number):
    """x [..., N, ...], or with several items for each sample in axis 0, times a number for each sample."""
    axes = [axis for axis, extent in enumerate(x.shape) if not isinstance(extent, int)]
    if len(axes) != 1 or not (low.is_batch(x.shape[axes[0]]) or axes[0] == 0):
        raise low.refusal("multiplies what does not depend on the samples, or in two axes, by a number of the batch")
    axis, samples = axes[0], low.batch.shape[0]
    aligned = Value(low.emit("reshape", [number], {"dims": [-1, *[1] * (x.rank - 1 - axis)]}), (samples, *[1] * (x.rank - 1 - axis)))
    if low.is_batch(x.shape[axis]):
        return Value(low.emit("mul", [x, aligned]), x.shape)
    rows = low.emit("reshape", [x], {"dims": [-1, low.items(x.shape)]})
    column = low.emit("reshape", [number], {"dims": [-1, 1]})
    product = low.graph.add("mul", [rows, column])[0]
    return Value(low.graph.add("reshape", [product], {"dims": low.dims(x.shape)})[0], x.shape)


def times_samples(low, x):
    """What does not depend on the samples, once for each of them."""
    each = low.emit("mul", [low.ones([low.batch.shape[0]]), x])
    total = low.graph.add("reduce_sum", [each], {"axes": [0], "keep_dims": False})[0]
    return Value(total, (), False, Total.MEAN)


@translates("add", "add_")
def add(low, self, other, alpha=1):
    a, b = low.value(self), low.value(scaled(low, other, alpha))
    totals = {value.total for value in (a, b)} - {None}
    if len(totals) > 1:
        a, b = (sum_as_mean(low, value, low.first_input()) if value.total is Total.SUM else value for value in (a, b))
        totals = {Total.MEAN}
    if not totals:
        return low.result("add", [a, b])
    total = totals.pop()
    if a.total != b.total and total is Total.SUM:
        raise low.refusal("adds what does not depend on the samples to a sum over them; use the mean over the samples")
    if any(value.rank for value in (a, b)):
        raise low.refusal("adds a sum or mean over the samples to a tensor, so a sample depends on others")
    if a.total != b.total:
        a, b = (value if value.total else times_samples(low, value) for value in (a, b))
    result = low.like(low.emit("add", [a, b]), total)
    if a.id in low.summands and b.id in low.summands:
        low.summands[result.id] = low.summands[a.id] + low.summands[b.id]
    return result


@translates("sub", "subtract")
def sub(low, self, other, alpha=1):
    return add(low, self, scaled(low, other, -alpha))


@translates("rsub")
def rsub(low, self, other, alpha=1):
    return add(low, other, scaled(low, self, -alpha))


@translates("mul", "multiply")
def mul(low, self, other):
    if isinstance(other, (int, float)):
        return scaled(low, low.value(self), float(other))
    for x, number in ((self, "other"), (other, "self")):
        node = low.number_of_batch(number)
        if node is not None:
            return times_number(low, low.value(x), node)
    a, b = low.value(self), low.value(other)
    if a.total and b.total:
        raise low.refusal("multiplies two sums over the samples, so the loss is not one")
    if (a.total and b.rank) or (b.total and a.rank):
        raise low.refusal("multiplies a sum over the samples by a tensor")
    return low.like(low.emit("mul", [a, b]), a.total or b.total)


@translates("div", "divide", "true_divide")
def div(low, self, other, rounding_mode=None):
    if rounding_mode is not None:
        return rounded_quotient(low, self, other, rounding_mode)
    if isinstance(other, (int, float)):
        return mul(low, self, 1 / other)
    x = low.value(self)
    node = low.number_of_batch("other")
    if node is not None:
        return times_number(low, x, node, inverse=True)
    if isinstance(other, torch.SymInt):
        return by_count(low, x, other)
    divisor = low.value(other)
    if divisor.total:
        raise low.refusal("divides by a sum over the samples, so the loss is not a mean over them")
    inverse = Value(low.emit("pow", [divisor], {"exponent": -1.0}), divisor.shape)
    return low.like(low.emit("mul", [x, inverse]), x.total)


def by_count(low, x, count):
    """x / count, where the count depends on the batch: of a sum over the samples, their mean."""
    each = low.items([count])
    if x.total is not Total.SUM:
        raise low.refusal("divides by the size of the batch what is not a sum over it")
    return dataclasses.replace(scaled(low, x, 1 / each), total=Total.MEAN)


@translates("neg", "negative")
def neg(low, self):
    return mul(low, self, -1.0)


def unary(*names, of):
    """An operation of Telar of one tensor."""

    @translates(*names)
    def translate(low, self, **_):
        return low.result(of, [self])

    return translate


for _name in ("relu", "sigmoid", "tanh", "silu", "hardswish", "exp", "log", "sin", "cos", "atan", "erf", "log1p", "expm1", "floor"):
    unary(_name, of=_name)
unary("arctan", of="atan")
unary("special_expit", of="sigmoid")
unary("special_erf", of="erf")


@translates("gelu")
def gelu(low, self, approximate="none"):
    return low.result("gelu_tanh" if approximate == "tanh" else "gelu", [self])


@translates("softplus")
def softplus(low, self, beta=1, threshold=20):
    return scaled(low, Value(low.emit("softplus", [scaled(low, self, beta)]), low.value(self).shape), 1 / beta)


@translates("elu")
def elu(low, self, alpha=1, scale=1, input_scale=1):
    """scale · x above 0, else scale · alpha · (e^(input_scale · x) − 1)."""
    x = low.value(self)
    if (alpha, scale, input_scale) == (1, 1, 1):
        return low.result("elu", [x])
    above = Value(low.emit("relu", [x]), x.shape)
    below = add(low, Value(low.emit("elu", [scaled(low, x, input_scale)]), x.shape), scaled(low, above, -input_scale))
    return add(low, scaled(low, above, scale), scaled(low, below, scale * alpha))


@translates("selu")
def selu(low, self):
    return elu(low, self, 1.6732632423543772, 1.0507009873554805)


@translates("celu")
def celu(low, self, alpha=1.0):
    return elu(low, self, alpha, 1, 1 / alpha)


@translates("mish")
def mish(low, self):
    x = low.value(self)
    return low.result("mul", [x, Value(low.emit("tanh", [Value(low.emit("softplus", [x]), x.shape)]), x.shape)])


@translates("log_sigmoid")
def log_sigmoid(low, self):
    x = scaled(low, low.value(self), -1)
    return scaled(low, Value(low.emit("softplus", [x]), x.shape), -1)


def of_one(low, name, x, attributes=None):
    return Value(low.emit(name, [x], attributes or {}), low.value(x).shape)


def power_of(low, x, exponent):
    return of_one(low, "pow", x, {"exponent": float(exponent)})


def times(low, a, b):
    """The product of two tensors."""
    return of_two(low, "mul", a, b)


def of_two(low, name, a, b):
    """An operation of two tensors, with broadcasting."""
    a, b = low.value(a), low.value(b)
    first, second = (a, b) if a.rank >= b.rank else (b, a)
    aligned = (*[1] * (first.rank - second.rank), *second.shape)
    shape = tuple(y if isinstance(x, int) and x == 1 else x for x, y in zip(first.shape, aligned))
    return Value(low.emit(name, [a, b]), shape)


def less_from_one(low, x):
    return add(low, 1.0, scaled(low, x, -1))


@translates("asin", "arcsin")
def arcsine(low, self):
    """atan(x / √((1 − x) (1 + x))), which keeps its digits near 1."""
    x = low.value(self)
    cosine = power_of(low, times(low, less_from_one(low, x), add(low, x, 1.0)), -0.5)
    return of_one(low, "atan", times(low, x, cosine))


@translates("acos", "arccos")
def arccosine(low, self):
    """2 atan(√((1 − x) / (1 + x)))."""
    x = low.value(self)
    ratio = times(low, less_from_one(low, x), power_of(low, add(low, x, 1.0), -1))
    return scaled(low, of_one(low, "atan", power_of(low, ratio, 0.5)), 2)


@translates("atan2", "arctan2")
def arctangent_of_two(low, self, other):
    """atan(y / x), and where x is negative π more or less, as y has its sign."""
    y, x = low.value(self), low.value(other)
    found = of_one(low, "atan", times(low, y, power_of(low, x, -1)))
    negative = less_from_one(low, of_one(low, "within", x, {"least": 0.0, "most": LARGEST}))
    above = of_one(low, "within", y, {"least": 0.0, "most": LARGEST})
    return add(low, found, scaled(low, times(low, negative, add(low, scaled(low, above, 2), -1.0)), math.pi))


@translates("tan")
def tangent(low, self):
    return times(low, of_one(low, "sin", self), power_of(low, of_one(low, "cos", self), -1))


@translates("sinh")
def hyperbolic_sine(low, self):
    minus = of_one(low, "expm1", scaled(low, low.value(self), -1))
    return scaled(low, add(low, of_one(low, "expm1", self), scaled(low, minus, -1)), 0.5)


@translates("cosh")
def hyperbolic_cosine(low, self):
    minus = of_one(low, "exp", scaled(low, low.value(self), -1))
    return scaled(low, add(low, of_one(low, "exp", self), minus), 0.5)


@translates("asinh", "arcsinh")
def inverse_hyperbolic_sine(low, self):
    """sign(x) · log(|x| + √(x² + 1)), as log1p(|x| + x² / (1 + √(x² + 1))). |x| is made of two parts, whose slopes at 0 are right."""
    x = low.value(self)
    return add(low, inverse_sine_above(low, of_one(low, "relu", x)),
               scaled(low, inverse_sine_above(low, of_one(low, "relu", scaled(low, x, -1))), -1))


def inverse_sine_above(low, x):
    squares = times(low, x, x)
    root = power_of(low, add(low, squares, 1.0), 0.5)
    return of_one(low, "log1p", add(low, x, times(low, squares, power_of(low, add(low, root, 1.0), -1))))


@translates("acosh", "arccosh")
def inverse_hyperbolic_cosine(low, self):
    """log(x + √(x² − 1)), as log1p of d + √(d (d + 2)), where d is x − 1."""
    d = add(low, self, -1.0)
    return of_one(low, "log1p", add(low, d, power_of(low, times(low, d, add(low, d, 2.0)), 0.5)))


@translates("atanh", "arctanh")
def inverse_hyperbolic_tangent(low, self):
    x = low.value(self)
    minus = of_one(low, "log1p", scaled(low, x, -1))
    return scaled(low, add(low, of_one(low, "log1p", x), scaled(low, minus, -1)), 0.5)


@translates("erfc", "special_erfc")
def other_error_function(low, self):
    return less_from_one(low, of_one(low, "erf", self))


@translates("lgamma", "special_gammaln")
def logarithm_of_gamma(low, self):
    """Stirling's series of x + 6, less the logarithms of x to x + 5; for x above 0."""
    x = low.value(self)
    product = lambda begin: times(low, times(low, add(low, x, begin), add(low, x, begin + 1)), add(low, x, begin + 2))
    lower = add(low, of_one(low, "log", product(0.0)), of_one(low, "log", product(3.0)))
    z = add(low, x, 6.0)
    inverse = power_of(low, z, -1)
    squares = times(low, inverse, inverse)
    series = add(low, scaled(low, squares, 1 / 1260), -1 / 360)
    series = times(low, inverse, add(low, times(low, squares, series), 1 / 12))
    main = add(low, times(low, add(low, z, -0.5), of_one(low, "log", z)), scaled(low, z, -1))
    return add(low, add(low, add(low, main, series), 0.5 * math.log(2 * math.pi)), scaled(low, lower, -1))


@translates("exp2", "special_exp2")
def power_of_two(low, self):
    return of_one(low, "exp", scaled(low, low.value(self), math.log(2)))


@translates("logit")
def logit(low, self, eps=None):
    x = low.value(self) if eps is None else clamp(low, self, eps, 1 - eps)
    return add(low, of_one(low, "log", x), scaled(low, of_one(low, "log", less_from_one(low, x)), -1))


@translates("xlogy", "special_xlogy")
def times_logarithm(low, self, other):
    return times(low, self, of_one(low, "log", other))


@translates("hypot")
def hypotenuse(low, self, other):
    return power_of(low, add(low, times(low, self, self), times(low, other, other)), 0.5)


@translates("lerp")
def between(low, self, end, weight):
    difference = add(low, end, scaled(low, low.value(self), -1))
    return add(low, self, scaled(low, difference, weight) if isinstance(weight, (int, float)) else times(low, difference, weight))


@translates("addcmul")
def plus_product(low, self, tensor1, tensor2, value=1):
    return add(low, self, scaled(low, times(low, tensor1, tensor2), value))


@translates("addcdiv")
def plus_quotient(low, self, tensor1, tensor2, value=1):
    return add(low, self, scaled(low, quotient(low, tensor1, tensor2), value))


def quotient(low, a, b):
    return scaled(low, low.value(a), 1 / b) if isinstance(b, (int, float)) else times(low, a, power_of(low, low.value(b), -1))


@translates("ceil")
def ceiling(low, self):
    return scaled(low, of_one(low, "floor", scaled(low, low.value(self), -1)), -1)


@translates("trunc", "fix")
def truncated(low, self):
    """floor of the positive part, ceil of the negative one."""
    x = low.value(self)
    above = of_one(low, "floor", of_one(low, "relu", x))
    return add(low, above, scaled(low, of_one(low, "floor", of_one(low, "relu", scaled(low, x, -1))), -1))


@translates("round")
def rounded(low, self, decimals=0):
    if decimals:
        raise low.refusal("rounds to decimals")
    return of_one(low, "round", self)


ROUNDINGS = {"floor": lambda low, x: of_one(low, "floor", x), "trunc": truncated}


def rounded_quotient(low, a, b, mode):
    """a / b, rounded by "floor" or "trunc"."""
    if low.form().is_floating_point():
        return ROUNDINGS[mode](low, quotient(low, a, b))
    if mode != "floor" or not isinstance(b, int) or b <= 0:
        raise low.refusal("divides whole numbers by what is not a positive constant, or rounds to zero")
    return of_one(low, "floor", quotient(low, add(low, a, 0.5), b))  # rounding of the division crosses no whole number


@translates("floor_divide")
def divided_and_rounded(low, self, other):
    return rounded_quotient(low, self, other, "floor")


@translates("remainder", "fmod")
def remainder(low, self, other):
    """x − y · floor(x / y), or trunc in place of floor."""
    whole = rounded_quotient(low, self, other, "floor" if low.operation() == "remainder" else "trunc")
    return add(low, self, scaled(low, times(low, whole, other), -1))


@translates("frac")
def fraction(low, self):
    return add(low, self, scaled(low, truncated(low, self), -1))


@translates("deg2rad")
def radians(low, self):
    return scaled(low, low.value(self), math.pi / 180)


@translates("rad2deg")
def degrees(low, self):
    return scaled(low, low.value(self), 180 / math.pi)


@translates("tanhshrink")
def less_its_tangent(low, self):
    return add(low, self, scaled(low, of_one(low, "tanh", self), -1))


@translates("softshrink")
def softshrink(low, self, lambd=0.5):
    """What is beyond ±λ, from there."""
    x = low.value(self)
    above = of_one(low, "relu", add(low, x, -float(lambd)))
    return add(low, above, scaled(low, of_one(low, "relu", add(low, scaled(low, x, -1), -float(lambd))), -1))


@translates("hardshrink")
def hardshrink(low, self, lambd=0.5):
    x = low.value(self)
    return times(low, x, less_from_one(low, of_one(low, "within", x, {"least": -float(lambd), "most": float(lambd)})))


@translates("threshold")
def threshold(low, self, threshold, value):
    """x above the threshold, else the value."""
    x = low.value(self)
    below = of_one(low, "within", add(low, x, -float(threshold)), {"least": -LARGEST, "most": 0.0})
    return add(low, times(low, x, less_from_one(low, below)), scaled(low, below, value))


@translates("softsign")
def softsign(low, self):
    return times(low, self, power_of(low, add(low, absolute(low, self), 1.0), -1))


@translates("log2")
def log2(low, self):
    return scaled(low, low.result("log", [self]), 1 / math.log(2))


@translates("log10")
def log10(low, self):
    return scaled(low, low.result("log", [self]), 1 / math.log(10))


@translates("logaddexp")
def logaddexp(low, self, other):
    difference = add(low, self, scaled(low, other, -1))
    return low.result("add", [other, Value(low.emit("softplus", [difference]), difference.shape)])


@translates("leaky_relu")
def leaky_relu(low, self, negative_slope=0.01):
    if math.isclose(negative_slope, 0.01, rel_tol=1e-6):
        return low.result("leaky_relu", [self])
    above = low.result("relu", [self])
    below = low.result("relu", [scaled(low, self, -1)])
    return low.result("add", [above, scaled(low, below, -negative_slope)])


@translates("abs", "absolute")
def absolute(low, self):
    x = low.value(self)
    return Value(low.emit("add", [of_one(low, "relu", x), of_one(low, "relu", scaled(low, x, -1))]), x.shape)


@translates("square")
def square(low, self):
    return low.result("mul", [self, self])


@translates("pow")
def power(low, self, exponent):
    if isinstance(self, (int, float)):
        return of_one(low, "exp", scaled(low, low.value(exponent), math.log(self)))
    if not isinstance(exponent, (int, float)):  # of numbers above 0
        return of_one(low, "exp", times(low, exponent, of_one(low, "log", self)))
    if exponent == 2:
        return square(low, self)
    return low.result("pow", [self], {"exponent": float(exponent)})


for _name, _exponent in (("sqrt", 0.5), ("rsqrt", -0.5), ("reciprocal", -1.0)):
    @translates(_name)
    def root(low, self, _exponent=_exponent):
        return low.result("pow", [self], {"exponent": _exponent})


@translates("clamp", "clip")
def clamp(low, self, min=None, max=None):
    if any(limit is not None and not isinstance(limit, (int, float)) for limit in (min, max)):
        above = self if min is None else maximum(low, self, min)
        return above if max is None else minimum(low, above, max)
    limits = {"least": -LARGEST if min is None else float(min), "most": LARGEST if max is None else float(max)}
    return low.result("clamp", [self], limits)


@translates("clamp_min")
def clamp_min(low, self, min):
    return clamp(low, self, min=min)


@translates("clamp_max")
def clamp_max(low, self, max):
    return clamp(low, self, max=max)


@translates("hardtanh")
def hardtanh(low, self, min_val=-1, max_val=1):
    return clamp(low, self, min_val, max_val)


@translates("relu6")
def relu6(low, self):
    return clamp(low, self, 0, 6)


@translates("hardsigmoid")
def hardsigmoid(low, self):
    return scaled(low, clamp(low, low.result("add", [self, 3.0]), 0, 6), 1 / 6)


@translates("gt", "ge", "lt", "le")
def compared(low, self, other):
    """Ones where it is true, else zeros; no gradient passes."""
    difference = add(low, self, scaled(low, other, -1))
    name = low.operation()
    limits = (0.0, LARGEST) if name in ("ge", "lt") else (-LARGEST, 0.0)
    found = Value(low.emit("within", [difference], dict(zip(("least", "most"), limits))), difference.shape)
    return inverted(low, found) if name in ("gt", "lt") else found


@translates("eq", "ne")
def is_equal(low, self, other):
    difference = add(low, low.value(self), scaled(low, other, -1))
    found = of_one(low, "within", difference, {"least": 0.0, "most": 0.0})
    return found if low.operation() == "eq" else inverted(low, found)


@translates("logical_not", "bitwise_not")
def negated(low, self):
    return inverted(low, as_numbers(self))


@translates("logical_and", "bitwise_and", "__and__")
def both(low, self, other):
    result = low.value(as_numbers(self))
    return Value(low.emit("mul", [result, as_numbers(other)]), tuple(low.form().shape))


@translates("logical_or", "bitwise_or", "__or__")
def either(low, self, other):
    return inverted(low, both(low, inverted(low, as_numbers(self)), inverted(low, as_numbers(other))))


@translates("sign", "sgn")
def sign(low, self):
    x = low.value(self)
    limits = [{"least": 0.0, "most": LARGEST}, {"least": -LARGEST, "most": 0.0}]
    above, below = (Value(low.emit("within", [x], limit), x.shape) for limit in limits)
    return add(low, above, scaled(low, below, -1))


@translates("masked_fill")
def masked_fill(low, self, mask, value):
    """x where the mask is false, the number where it is true."""
    if isinstance(value, Value) or isinstance(value, torch.Tensor) and value.requires_grad:
        raise low.refusal("fills with what the module computes; use torch.where")
    number = float(value)
    if math.isinf(number):
        if isinstance(mask, torch.Tensor) and bool(mask.all(dim=-1).any()):
            raise low.refusal("masks all elements of a row with an infinity")
        number = math.copysign(1e30, number)  # exp gives 0 for it, too
    masked = as_numbers(mask)
    kept = low.result("mul", [self, inverted(low, masked)])
    return low.result("add", [kept, scaled(low, masked, number)])


@translates("where")
def where(low, condition, self, other):
    chosen = as_numbers(condition)
    first = low.result("mul", [limited(self), chosen])
    return low.result("add", [first, low.result("mul", [limited(other), inverted(low, chosen)])])


def as_numbers(mask):
    """A mask as ones and zeros."""
    return mask.float() if isinstance(mask, torch.Tensor) else mask


def inverted(low, mask):
    if isinstance(mask, torch.Tensor):
        return 1 - mask
    value = low.value(mask)
    return Value(low.emit("add", [scaled(low, value, -1.0), 1.0]), value.shape)


def limited(x):
    """Constants with infinities, which would give NaN times 0, as large numbers."""
    if isinstance(x, torch.Tensor):
        return x.float().clamp(-1e30, 1e30)
    return Uniform(min(max(x.number, -1e30), 1e30), x.shape) if isinstance(x, Uniform) else x


@translates("maximum")
def maximum(low, self, other):
    difference = add(low, self, scaled(low, other, -1))
    return low.result("add", [other, Value(low.emit("relu", [difference]), difference.shape)])


@translates("minimum")
def minimum(low, self, other):
    difference = add(low, self, scaled(low, other, -1))
    return low.result("add", [self, scaled(low, Value(low.emit("relu", [difference]), difference.shape), -1)])


@translates("prelu")
def prelu(low, self, weight):
    x, slope = low.value(self), low.value(weight)
    slope = Value(low.emit("reshape", [slope], {"dims": [slope.shape[0], *[1] * (x.rank - 2)]}), ())
    below = low.result("mul", [low.result("relu", [scaled(low, x, -1)]), slope])
    return low.result("add", [low.result("relu", [x]), scaled(low, below, -1)])


@translates("rms_norm")
def rms_norm(low, input, normalized_shape, weight=None, eps=None):
    x = low.value(input)
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    squares = low.result("mul", [x, x])
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    mean = Value(low.emit("reduce_mean", [squares], {"axes": axes, "keep_dims": True}), shape)
    positive = Value(low.emit("add", [mean, 1.1920929e-07 if eps is None else float(eps)]), shape)
    inverse = Value(low.emit("pow", [positive], {"exponent": -0.5}), shape)
    normal = low.result("mul", [x, inverse])
    return normal if weight is None else low.result("mul", [normal, weight])
