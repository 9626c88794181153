"""Recurrent layers. Keras's gates of an LSTM have Telar's order; of a GRU, update and reset change places."""

import keras
import numpy

from telar.keras.activations import activated
from telar.keras.layers.regularisation import is_training
from telar.keras.values import Layout, Value
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


def matrix(low, variable, gates, exchanged):
    """A kernel [inputs, gates · units], as [gates · units, inputs]."""
    inputs, columns = variable.shape
    layout = Layout((inputs, gates, columns // gates), (1, 2, 0), (columns, inputs), 1 if exchanged else None)
    return low.parameter(variable, layout)


def require_plain(low, layer, initial_state, mask):
    cell = layer.cell
    for reason, found in (("begins with a state", initial_state is not None), ("has a mask of the samples", mask is not None),
                          ("keeps its state from batch to batch (stateful)", layer.stateful),
                          ("has a recurrent_dropout, which drops other elements at each step", cell.recurrent_dropout),
                          ("has other activations than tanh and sigmoid",
                           cell.activation is not keras.activations.tanh
                           or cell.recurrent_activation is not keras.activations.sigmoid)):
        if found:
            raise low.refusal(reason)


def reversed_steps(low, x):
    """x [N, T, C] with its steps in the other order."""
    x = low.number(x)
    steps = x.shape[1]
    last = low.permuted(x, [0, 2, 1])
    turned = low.matmul(last, low.constant(numpy.eye(steps)[::-1].copy()))
    return low.permuted(turned, [0, 2, 1])


def with_dropout(low, layer, x, training):
    """One draw for each sample and input, for all steps."""
    rate = layer.cell.dropout
    if not is_training(low, training) or rate == 0 or low.check:
        return x
    x = low.number(x)
    return low.mul(x, low.dropped(low.ones((None, 1, x.shape[2])), rate))


def result(low, layer, y, states):
    """What the layer returns. y: [N, T, units]; states: [N, units] each, the output first."""
    first = y if layer.return_sequences else states[0]
    return [first, *states] if layer.return_state else first


@translates("LSTM")
def lstm(low, layer, x, initial_state=None, mask=None, training=None):
    require_plain(low, layer, initial_state, mask)
    cell = layer.cell
    x = with_dropout(low, layer, x, training)
    x = low.plain(reversed_steps(low, x) if layer.go_backwards else x)
    weights = [matrix(low, cell.kernel, 4, False), matrix(low, cell.recurrent_kernel, 4, False)]
    biases = [low.parameter(cell.bias), low.ones((4 * cell.units,), 0.0)] if cell.use_bias else [None, None]
    y, hidden, carry, *_ = low.emit("lstm", [x, *weights, *biases], which=None)
    last = (None, cell.units)
    return result(low, layer, Value(y, (*x.shape[:2], cell.units)), [Value(hidden, last), Value(carry, last)])


@translates("GRU")
def gru(low, layer, x, initial_state=None, mask=None, training=None):
    require_plain(low, layer, initial_state, mask)
    cell = layer.cell
    if not cell.reset_after:
        raise low.refusal("has reset_after=False: it resets the state before its product; Telar resets after it")
    x = with_dropout(low, layer, x, training)
    x = low.plain(reversed_steps(low, x) if layer.go_backwards else x)
    weights = [matrix(low, cell.kernel, 3, True), matrix(low, cell.recurrent_kernel, 3, True)]
    biases = [None, None]
    if cell.use_bias:
        both = low.parameter(cell.bias, Layout((2, 3, cell.units), (0, 1, 2), (2, 3 * cell.units), 1))
        biases = [low.reshaped(part, (3 * cell.units,)) for part in low.parts(both, 0, [1, 1])]
    y, hidden, *_ = low.emit("gru", [x, *weights, *biases], which=None)
    return result(low, layer, Value(y, (*x.shape[:2], cell.units)), [Value(hidden, (None, cell.units))])


@translates("SimpleRNN")
def simple_rnn(low, layer, x, initial_state=None, mask=None, training=None):
    """Its steps are written out, up to 512."""
    cell = layer.cell
    for reason, found in (("begins with a state", initial_state is not None), ("has a mask of the samples", mask is not None),
                          ("keeps its state from batch to batch (stateful)", layer.stateful),
                          ("has a recurrent_dropout", cell.recurrent_dropout)):
        if found:
            raise low.refusal(reason)
    x = with_dropout(low, layer, x, training)
    x = low.plain(reversed_steps(low, x) if layer.go_backwards else x)
    if x.shape[1] > 512:
        raise low.refusal("has more than 512 steps, which are written out")
    weights = [matrix(low, v, 1, False) for v in (cell.kernel, cell.recurrent_kernel)]
    all_inputs = low.linear(x, weights[0], low.parameter(cell.bias) if cell.use_bias else None)
    hidden, outputs = None, []
    for step in low.parts(all_inputs, 1, [1] * x.shape[1]):
        total = low.reshaped(step, (None, cell.units))
        total = total if hidden is None else low.add(total, low.linear(hidden, weights[1]))
        hidden = activated(low, total, cell.activation)
        outputs.append(low.reshaped(hidden, (None, 1, cell.units)))
    return result(low, layer, low.joined(outputs, 1), [hidden])


@translates("Bidirectional")
def bidirectional(low, layer, x, initial_state=None, mask=None, training=None):
    from telar.keras.walking import called

    if initial_state is not None or mask is not None or layer.return_state:
        raise low.refusal("begins with a state, has a mask, or returns its states")
    keywords = {"training": training} if training is not None else {}
    y = called(low, layer.forward_layer, [x], keywords)
    back = called(low, layer.backward_layer, [x], keywords)
    back = reversed_steps(low, back) if layer.return_sequences else back
    if layer.merge_mode == "concat":
        return low.joined([low.plain(y), low.plain(back)], low.any(y).rank - 1)
    if layer.merge_mode is None:
        return [y, back]
    combined = low.mul(y, back) if layer.merge_mode == "mul" else low.add(y, back)
    return low.scaled(combined, 0.5) if layer.merge_mode == "ave" else combined


@translates("TimeDistributed")
def time_distributed(low, layer, x, training=None, mask=None):
    """The layer for each step: its samples are samples and steps together."""
    if type(layer.layer).__name__ != "Dense" or mask is not None:
        raise low.refusal("applies another layer than Dense to each step, or has a mask")
    from telar.keras.walking import called

    return called(low, layer.layer, [x], {})
