"""Activations: functions of keras.activations, and what a layer has as its activation."""

import keras

from telar.keras.values import Value

LARGEST = 3.4028234663852886e38


def activated(low, x, function):
    """function(x), for what a layer has as its activation."""
    if function is None:
        return x
    if isinstance(function, keras.layers.Layer):
        from telar.keras.walking import called

        return called(low, function, [x], {})
    name = getattr(function, "__name__", type(function).__name__)
    if getattr(keras.activations, name, None) is not function:
        from telar.keras.walking import traced

        return traced(low, function, [x], {}, f"the activation {name}")
    if name not in ACTIVATIONS:
        raise low.refusal(f"has the activation {name}, which Telar does not have")
    return ACTIVATIONS[name](low, x)


def softmax(low, x, axis=-1):
    x = low.number(x)
    axis = axis % x.rank
    if x.shape[axis] is None:
        raise low.refusal("runs along the axis of the samples, so a sample depends on others")
    id = low.emit("softmax", [x], {"axis": x.order.index(axis)})
    return Value(id, x.shape, order=x.order, logits=x if axis == x.rank - 1 else None)


def masked_softmax(low, x, mask, axis, lowest):
    """The softmax of what the mask (1 or 0) leaves; what it does not is 0. lowest: what masked numbers are before."""
    return low.mul(softmax(low, low.where(mask, x, lowest), axis), mask)


def log_softmax(low, x, axis=-1):
    x = low.number(x)
    shifted = low.sub(x, low.reduced("reduce_max", x, [axis], keepdims=True))
    total = low.reduced("reduce_sum", low.unary("exp", shifted), [axis], keepdims=True)
    return low.sub(shifted, low.unary("log", total))


def sigmoid(low, x):
    y = low.unary("sigmoid", x)
    return Value(y.id, y.shape, order=y.order, logits=low.number(x))


def clamped(low, x, least, most):
    return low.unary("clamp", x, {"least": float(least), "most": float(most)})


def leaky_relu(low, x, slope=0.2):
    if slope == 0.01:
        return low.unary("leaky_relu", x)
    return low.add(low.unary("relu", x), low.scaled(low.unary("relu", low.scaled(x, -1)), -slope))


def absolute(low, x):
    return low.add(low.unary("relu", x), low.unary("relu", low.scaled(x, -1)))


def maximum(low, a, b):
    return low.add(b, low.unary("relu", low.sub(a, b)))


def minimum(low, a, b):
    return low.sub(a, low.unary("relu", low.sub(a, b)))


def hard_sigmoid(low, x):
    return low.scaled(clamped(low, low.add(x, 3.0), 0, 6), 1 / 6)


def selu(low, x):
    """scale · (x if above 0, else alpha · (e^x − 1))."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    below = low.sub(low.unary("elu", x), low.unary("relu", x))
    return low.scaled(low.add(low.unary("relu", x), low.scaled(below, alpha)), scale)


def softsign(low, x):
    return low.mul(x, low.power(low.add(absolute(low, x), 1.0), -1.0))


def same(name):
    return lambda low, x: low.unary(name, x)


ACTIVATIONS = {
    "relu": same("relu"), "tanh": same("tanh"), "elu": same("elu"), "softplus": same("softplus"), "gelu": same("gelu"),
    "silu": same("silu"), "hard_silu": same("hardswish"), "exponential": same("exp"), "linear": lambda low, x: x,
    "sigmoid": sigmoid, "softmax": softmax, "log_softmax": log_softmax, "leaky_relu": leaky_relu, "selu": selu,
    "relu6": lambda low, x: clamped(low, x, 0, 6), "hard_sigmoid": hard_sigmoid, "softsign": softsign,
    "mish": lambda low, x: low.mul(x, low.unary("tanh", low.unary("softplus", x))),
    "log_sigmoid": lambda low, x: low.scaled(low.unary("softplus", low.scaled(x, -1)), -1),
    "hard_tanh": lambda low, x: clamped(low, x, -1, 1),
}


def relu_of(low, x, negative_slope, max_value, threshold):
    """ReLU with all of its options."""
    if threshold:
        raise low.refusal("has a threshold other than 0")
    if max_value is not None and negative_slope:
        raise low.refusal("has both a greatest value and a slope below 0")
    if max_value is not None:
        return clamped(low, x, 0, float(max_value))
    return leaky_relu(low, x, float(negative_slope)) if negative_slope else low.unary("relu", x)


