"""Recurrent layers and their cells."""

import torch

from telar.registry import Registry
from telar.torch.operations import shaping
from telar.torch.operations.elementwise import of_one, of_two, scaled
from telar.torch.operations.random import dropped
from telar.torch.operations.shaping import reshaped
from telar.torch.values import Uniform, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates

MOST_STEPS = 512  # of a recurrent layer whose steps are written out
NO_LENGTHS = None  # an input of the engine's operations


@translates("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(low, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Layers of one or two directions. LSTM and GRU are operations of Telar; the steps of others are written out."""
    kind = low.operation()
    states = hx if isinstance(hx, (list, tuple)) else [hx]
    x = low.value(input)
    x = x if batch_first else shaping.permuted(low, x, [1, 0, 2])
    each, directions = 4 if has_biases else 2, 2 if bidirectional else 1
    finals = []
    for layer in range(num_layers):
        if layer and train:
            x = dropped(low, x, dropout)
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = [*params[number * each:(number + 1) * each], None, None][:4]
            turned = shaping.along(low, x, 1, torch.eye(x.shape[1]).flip(0)) if direction else x
            y, final = one_direction(low, kind, turned, weights, [initial(low, state, number) for state in states])
            outputs.append(shaping.along(low, y, 1, torch.eye(x.shape[1]).flip(0)) if direction else y)
            finals.append([reshaped(low, state, (1, *state.shape)) for state in final])
        x = shaping.joined(low, outputs, 2) if bidirectional else outputs[0]
    last = [shaping.joined(low, list(layers), 0) if len(layers) > 1 else layers[0] for layers in zip(*finals)]
    return [x if batch_first else shaping.permuted(low, x, [1, 0, 2]), *last]


def initial(low, state, number):
    """The state [N, H] with which a layer begins, or None for zeros. state: of all layers, [layers, N, H]."""
    if is_zero(state):
        return None
    value = low.value(state)
    one = shaping.part(low, value, 0, number, number + 1)
    return reshaped(low, one, value.shape[1:])


def is_zero(state):
    if isinstance(state, Uniform):
        return state.number == 0
    return isinstance(state, torch.Tensor) and not bool(state.any())


def one_direction(low, kind, x, weights, begin):
    """The hidden states [N, T, H] of x [N, T, I], and the last state [N, H] of each kind."""
    hidden = low.value(weights[1]).shape[1]
    last = (x.shape[0], hidden)
    if kind in ("lstm", "gru"):
        y, *final = low.emit(kind, [x, *weights, NO_LENGTHS, *begin], which=None)
        return Value(y, (*x.shape[:2], hidden)), [Value(id, last) for id in final[:len(begin)]]
    if x.shape[1] > MOST_STEPS:
        raise low.refusal(f"is not an LSTM or GRU, and has more than {MOST_STEPS} steps")
    states = [low.ones(last, 0.0) if state is None else state for state in begin]
    outputs = []
    for step in shaping.parts(low, x, 1, [1] * x.shape[1]):
        states = CELLS[kind](low, reshaped(low, step, (x.shape[0], x.shape[2])), states, *weights)
        outputs.append(reshaped(low, states[0], (x.shape[0], 1, hidden)))
    return (shaping.joined(low, outputs, 1) if len(outputs) > 1 else outputs[0]), states


def gates(low, x, weight, bias, count):
    """The parts of a linear layer's result."""
    rows = low.value(weight).shape[0]
    together = Value(low.emit("linear", [x, weight, bias]), (x.shape[0], rows))
    return shaping.parts(low, together, 1, [rows // count] * count)


def lstm_cell(low, x, states, w_ih, w_hh, b_ih=None, b_hh=None):
    h, c = states
    of_x, of_h = gates(low, x, w_ih, b_ih, 4), gates(low, h, w_hh, b_hh, 4)
    i, f, g, o = (of_two(low, "add", a, b) for a, b in zip(of_x, of_h))
    kept = of_two(low, "mul", of_one(low, "sigmoid", f), c)
    c = of_two(low, "add", kept, of_two(low, "mul", of_one(low, "sigmoid", i), of_one(low, "tanh", g)))
    return [of_two(low, "mul", of_one(low, "sigmoid", o), of_one(low, "tanh", c)), c]


def gru_cell(low, x, states, w_ih, w_hh, b_ih=None, b_hh=None):
    (h,) = states
    of_x, of_h = gates(low, x, w_ih, b_ih, 3), gates(low, h, w_hh, b_hh, 3)
    r, z = (of_one(low, "sigmoid", of_two(low, "add", of_x[i], of_h[i])) for i in (0, 1))
    n = of_one(low, "tanh", of_two(low, "add", of_x[2], of_two(low, "mul", r, of_h[2])))
    return [of_two(low, "add", n, of_two(low, "mul", z, of_two(low, "add", h, scaled(low, n, -1))))]


def plain_cell(activation):
    def cell(low, x, states, w_ih, w_hh, b_ih=None, b_hh=None):
        (of_x,), (of_h,) = gates(low, x, w_ih, b_ih, 1), gates(low, states[0], w_hh, b_hh, 1)
        return [of_one(low, activation, of_two(low, "add", of_x, of_h))]

    return cell


CELLS = {"lstm": lstm_cell, "gru": gru_cell, "rnn_tanh": plain_cell("tanh"), "rnn_relu": plain_cell("relu")}


@translates("lstm_cell")
def one_lstm_cell(low, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return lstm_cell(low, low.value(input), [low.value(state) for state in hx], w_ih, w_hh, b_ih, b_hh)


@translates("gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def one_cell(low, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    kind = low.operation().removesuffix("_cell")
    return CELLS[kind](low, low.value(input), [low.value(hx)], w_ih, w_hh, b_ih, b_hh)[0]
