"""Recurrent layers. Keras's gates of an LSTM have Telar's order; of a GRU, update and reset change places."""

import keras
import numpy

from telar.keras.activations import activated
from telar.keras.layers.regularisation import is_training
from telar.keras.values import Layout, Value
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates
LONGEST = 512  # steps that are written out, or have a mask
PART = 256
NO_LENGTHS = None  # an input of the engine's operations


def matrix(low, variable, gates, exchanged):
    """A kernel [inputs, gates · units], as [gates · units, inputs]."""
    inputs, columns = variable.shape
    layout = Layout((inputs, gates, columns // gates), (1, 2, 0), (columns, inputs), 1 if exchanged else None)
    return low.parameter(variable, layout)


def require_known(low, layer, mask):
    cell = layer.cell
    for reason, found in (("keeps its state from batch to batch (stateful)", layer.stateful),
                          ("has a recurrent_dropout, which drops other elements at each step", cell.recurrent_dropout),
                          ("is unrolled, goes backwards and has a mask, of which Keras takes the steps in the other order; leave out unroll",
                           mask is not None and layer.unroll and layer.go_backwards)):
        if found:
            raise low.refusal(reason)


def is_usual(cell):
    """Whether the engine has an operation of this cell for all steps."""
    return (cell.activation is keras.activations.tanh and cell.recurrent_activation is keras.activations.sigmoid
            and getattr(cell, "reset_after", True))


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


def prepared(low, layer, x, mask, training):
    """The steps in the layer's order, and their mask (1 or 0), or None."""
    x = with_dropout(low, layer, x, training)
    x = low.plain(reversed_steps(low, x) if layer.go_backwards else x)
    if mask is None:
        return x, None
    if x.shape[1] > LONGEST:
        raise low.refusal(f"has a mask of more than {LONGEST} steps; give it shorter sequences")
    truth = low.truth(mask)
    if layer.go_backwards:
        steps = truth.shape[1]
        truth = low.matmul(truth, low.constant(numpy.eye(steps)[::-1].copy()))
    return x, truth


def result(layer, outputs, last, states):
    """What the layer returns. outputs: [N, T, units], or None; last: [N, units]; states: [N, units] each."""
    first = outputs if layer.return_sequences else last
    return [first, *states] if layer.return_state else first


def at_once(low, layer, x, mask, compute):
    """All steps by one operation. compute: gives the outputs of all steps, and the last states.

    With a mask, the steps that count come first, one after another. So a sample is computed as if it had no others, and
    each step gets the output of the last one that counts.
    """
    if mask is None:
        outputs, states = compute(x)
        return result(layer, outputs, states[0], states)
    steps, units = x.shape[1], layer.cell.units
    held = low.unary("within", distances(low, mask), {"least": -0.5, "most": 0.5})
    moved = low.mul(held, low.reshaped(mask, (None, steps, 1)))
    outputs, _ = compute(low.matmul(moved, x, transpose_a=True))
    last = low.reshaped(low.matmul(low.part(held, 1, steps - 1, steps), outputs), (None, units))
    state = last
    if layer.zero_output_for_mask:
        last = low.mul(last, low.part(mask, 1, steps - 1, steps))
    outputs = low.matmul(moved if layer.zero_output_for_mask else held, outputs) if layer.return_sequences else None
    return result(layer, outputs, last, [state])


def distances(low, mask):
    """[N, T, T]: from the place of a step, among those that count until then, to each place.

    As sums of parts of up to 256 steps: bf16 has whole numbers until there, and what is further off is not rounded to 0.
    """
    steps, total = mask.shape[1], None
    for begin in range(0, steps, PART):
        until = numpy.triu(numpy.ones((steps, steps)))
        until[:begin], until[begin + PART:] = 0, 0
        counts = low.reshaped(low.matmul(mask, low.constant(until)), (None, steps, 1))
        places = numpy.clip(numpy.arange(1, steps + 1) - begin, 0, PART).astype(numpy.float32)
        part = low.sub(counts, places[None, None])
        total = part if total is None else low.add(total, part)
    return total


def written_out(low, layer, projected, mask, states, step):
    """Step by step. projected: [N, T, gates · units], the inputs' part of all steps. states: at the start; None: zeros.

    step: a function of (the inputs' part of a step, states) that gives the output and the new states.
    """
    steps = projected.shape[1]
    if steps > LONGEST:
        raise low.refusal(f"has {steps} steps, which are written out, up to {LONGEST}; give it shorter sequences")
    truths = low.parts(mask, 1, [1] * steps) if mask is not None else [None] * steps
    last, outputs = None, []
    for part, truth in zip(low.parts(projected, 1, [1] * steps), truths):
        output, new = step(low.reshaped(part, (None, projected.shape[2])), states)
        if truth is not None:
            new = [low.where(truth, one, 0.0 if before is None else before) for one, before in zip(new, states)]
            output = low.where(truth, output, 0.0 if last is None or layer.zero_output_for_mask else last)
        last, states = output, new
        outputs.append(low.reshaped(output, (None, 1, output.shape[1])))
    return result(layer, low.joined(outputs, 1) if layer.return_sequences else None, last, states)


def beginning(low, layer, initial_state, count):
    """The states at the start."""
    if initial_state is None:
        return [None] * count
    given = list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state]
    if len(given) != count:
        raise low.refusal(f"begins with {len(given)} states, and has {count}")
    return [low.number(one) for one in given]


def gates_of(low, x, count):
    return low.parts(x, 1, [x.shape[1] // count] * count)


@translates("LSTM")
def lstm(low, layer, x, initial_state=None, mask=None, training=None):
    require_known(low, layer, mask)
    cell = layer.cell
    x, mask = prepared(low, layer, x, mask, training)
    weights = [matrix(low, cell.kernel, 4, False), matrix(low, cell.recurrent_kernel, 4, False)]
    bias = low.parameter(cell.bias) if cell.use_bias else None

    begin = beginning(low, layer, initial_state, 2)

    def compute(x):
        both = [bias, low.ones((4 * cell.units,), 0.0)] if cell.use_bias else [None, None]
        y, hidden, carry, *_ = low.emit("lstm", [x, *weights, *both, NO_LENGTHS, *begin], which=None)
        last = (None, cell.units)
        return Value(y, (*x.shape[:2], cell.units)), [Value(hidden, last), Value(carry, last)]

    def step(inputs, states):
        hidden, carry = states
        total = inputs if hidden is None else low.add(inputs, low.linear(hidden, weights[1]))
        i, f, new, o = gates_of(low, total, 4)
        i, f, o = (activated(low, gate, cell.recurrent_activation) for gate in (i, f, o))
        added = low.mul(i, activated(low, new, cell.activation))
        carry = added if carry is None else low.add(low.mul(f, carry), added)
        hidden = low.mul(o, activated(low, carry, cell.activation))
        return hidden, [hidden, carry]

    if is_usual(cell) and (mask is None or initial_state is None and not layer.return_state):
        return at_once(low, layer, x, mask, compute)
    return written_out(low, layer, low.linear(x, weights[0], bias), mask, begin, step)


@translates("GRU")
def gru(low, layer, x, initial_state=None, mask=None, training=None):
    """Its gates are those of the reset, of the update, and the new state."""
    require_known(low, layer, mask)
    cell = layer.cell
    units = cell.units
    x, mask = prepared(low, layer, x, mask, training)
    weights = [matrix(low, cell.kernel, 3, True), matrix(low, cell.recurrent_kernel, 3, True)]
    biases = [None, None]
    if cell.use_bias and cell.reset_after:
        both = low.parameter(cell.bias, Layout((2, 3, units), (0, 1, 2), (2, 3 * units), 1))
        biases = [low.reshaped(part, (3 * units,)) for part in low.parts(both, 0, [1, 1])]
    elif cell.use_bias:
        biases[0] = low.parameter(cell.bias, Layout((3, units), (0, 1), (3 * units,), 0))

    begin = beginning(low, layer, initial_state, 1)

    def compute(x):
        y, hidden, *_ = low.emit("gru", [x, *weights, *biases, NO_LENGTHS, *begin], which=None)
        return Value(y, (*x.shape[:2], units)), [Value(hidden, (None, units))]

    apart = low.parts(weights[1], 0, [2 * units, units]) if not cell.reset_after else None

    def step(inputs, states):
        hidden = states[0] if states[0] is not None else low.ones((None, units), 0.0)
        gates, new = low.parts(inputs, 1, [2 * units, units])
        if cell.reset_after:
            of_gates, of_new = low.parts(low.linear(hidden, weights[1], biases[1]), 1, [2 * units, units])
        else:
            of_gates = low.linear(hidden, apart[0])
        reset, update = (activated(low, gate, cell.recurrent_activation) for gate in gates_of(low, low.add(gates, of_gates), 2))
        of_new = low.mul(reset, of_new) if cell.reset_after else low.linear(low.mul(reset, hidden), apart[1])
        new = activated(low, low.add(new, of_new), cell.activation)
        hidden = low.where(update, hidden, new)
        return hidden, [hidden]

    if is_usual(cell) and (mask is None or initial_state is None):
        return at_once(low, layer, x, mask, compute)
    return written_out(low, layer, low.linear(x, weights[0], biases[0]), mask, begin, step)


@translates("SimpleRNN")
def simple_rnn(low, layer, x, initial_state=None, mask=None, training=None):
    require_known(low, layer, mask)
    cell = layer.cell
    x, mask = prepared(low, layer, x, mask, training)
    weights = [matrix(low, v, 1, False) for v in (cell.kernel, cell.recurrent_kernel)]
    projected = low.linear(x, weights[0], low.parameter(cell.bias) if cell.use_bias else None)

    def step(inputs, states):
        hidden, = states
        total = inputs if hidden is None else low.add(inputs, low.linear(hidden, weights[1]))
        hidden = activated(low, total, cell.activation)
        return hidden, [hidden]

    return written_out(low, layer, projected, mask, beginning(low, layer, initial_state, 1), step)


@translates("Bidirectional")
def bidirectional(low, layer, x, initial_state=None, mask=None, training=None):
    from telar.keras.walking import called

    if initial_state is not None or layer.return_state:
        raise low.refusal("begins with a state, or returns its states")
    keywords = {"training": training, "mask": mask}
    keywords = {name: given for name, given in keywords.items() if given is not None}
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
    """The layer for each step: its samples are samples and steps together. A Dense layer has no use for the mask."""
    if type(layer.layer).__name__ != "Dense":
        raise low.refusal("applies another layer than Dense to each step")
    from telar.keras.walking import called

    return called(low, layer.layer, [x], {})
