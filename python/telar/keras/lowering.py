"""From a model of Keras to a graph of Telar: the tools with which a layer is translated."""

import contextlib
import math

import numpy

from telar import _native
from telar.keras.values import Deferred, Pending, Refusal, Value, as_held


class Lowering:
    """Builds one graph of a model.

    variables: the model's variables (telar.keras.variables). training: the mode of layers that are not told another.
    For a `check`, dropout changes nothing, as in telar.keras.check. rounds: whether the session may compute in bf16. prepared_x: the
    name of a prepared input that becomes the graph's "x", which every model has.
    """

    SAMPLES = 4  # of the batch for which the graph is built; it serves any number

    def __init__(self, variables, training, check=False, rounds=False, prepared_x=None):
        self.variables = variables
        self.training = training
        self.is_training = training  # of the graph as a whole
        self.check = check
        self.rounds = rounds
        self.graph = _native.GraphBuilder()
        self.inputs = {}  # names of the inputs that are used -> their Value
        self._prepared_x = prepared_x
        self.prepared = {}  # those that Keras computes of each batch, by name (Prepared)
        self.layer = None  # the operation under translation
        self.declared = {}  # parameters and constants by name
        self.vocabularies = {}  # id of tokens -> how many rows the table has that takes them
        self.fed = {}  # inputs that are not the model's, by name
        self.statistics = set()
        self.draws = False
        self._random = None
        self._moved = {}  # (id, order, wanted order) -> id
        self._calls = {}

    # Operations

    def emit(self, name, inputs, attributes=None, which=0):
        """Adds an operation. inputs: values, or None; returns the id of a result, or of all (None)."""
        ids = [-1 if value is None else value.id for value in inputs]
        try:
            results = self.graph.add(name, ids, attributes or {})
        except _native.Error as error:
            raise Refusal(f"{error} ({self.place()})") from None
        return results if which is None else results[which]

    def unary(self, name, x, attributes=None):
        """An operation that computes each element by itself."""
        x = self.number(x)
        return Value(self.emit(name, [x], attributes), x.shape, order=x.order)

    def add(self, a, b):
        return self._binary("add", a, b)

    def mul(self, a, b):
        if isinstance(b, (int, float)):
            return self.scaled(a, b)
        return self._binary("mul", a, b)

    def sub(self, a, b):
        return self.add(a, -b if isinstance(b, (int, float, numpy.ndarray)) else self.scaled(b, -1.0))

    def scaled(self, x, factor):
        return x if factor == 1 else self.unary("scale", x, {"factor": float(factor)})

    def power(self, x, exponent):
        return self.mul(x, x) if exponent == 2 else self.unary("pow", x, {"exponent": float(exponent)})

    def reduced(self, name, x, axes, keepdims=False):
        """A sum, mean or maximum over axes of Keras's tensor."""
        x = self.number(x)
        axes = sorted(axis % x.rank for axis in axes)
        if not axes:
            return x
        held = sorted(x.order.index(axis) for axis in axes)
        id = self.emit(name, [x], {"axes": held, "keep_dims": bool(keepdims)})
        if keepdims:
            return Value(id, tuple(1 if axis in axes else e for axis, e in enumerate(x.shape)), order=x.order)
        kept = [axis for axis in range(x.rank) if axis not in axes]
        order = tuple(kept.index(axis) for axis in x.order if axis in kept)
        return Value(id, tuple(x.shape[axis] for axis in kept), order=order)

    def matmul(self, a, b, transpose_a=False, transpose_b=False):
        """The product of matrices in the last two axes, whose other axes are equal; or of rows by one matrix."""
        a, b = self.plain(a), self.plain(b)
        columns = b.shape[-2] if transpose_b else b.shape[-1]
        flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        if b.rank == 2 and a.rank != 2:
            rows = self.reshaped(a, (-1, a.shape[-1]))
            return self.reshaped(Value(self.emit("matmul", [rows, b], flags), (-1, columns)), (*a.shape[:-1], columns))
        rows = a.shape[-1] if transpose_a else a.shape[-2]
        return Value(self.emit("matmul", [a, b], flags), (*a.shape[:-2], rows, columns))

    def linear(self, x, weight, bias=None):
        """x · weightᵀ + bias over the last axis."""
        x = self.plain(x)
        rows = x if x.rank == 2 else self.reshaped(x, (-1, x.shape[-1]))
        id = self.emit("linear", [rows, weight, bias])
        return self.reshaped(Value(id, (rows.shape[0], weight.shape[0])), (*x.shape[:-1], weight.shape[0]))

    # Shapes and the order of axes

    def reshaped(self, x, shape):
        """The elements in Keras's order with another shape; -1 or None: what depends on the samples."""
        x = self.plain_any(x)
        shape = tuple(shape)
        if x.shape == shape:
            return x
        dims = [-1 if extent is None else extent for extent in shape]
        if dims.count(-1) > 1:
            raise self.refusal("has a result with two axes that depend on the number of samples")
        return Value(self.emit("reshape", [x], {"dims": dims or [1]}), shape, x.integer)

    def ordered(self, x, order):
        """The same tensor, held in this order of its axes."""
        order = tuple(order)
        if x.order == order:
            return x
        key = (x.id, x.order, order)
        if key not in self._moved:
            permutation = [x.order.index(axis) for axis in order]
            moved = Value(-1, x.shape, order=order)
            wide = [axis for axis in permutation if x.held[axis] != 1]
            if wide == sorted(wide):  # only axes of one item move
                self._moved[key] = self.emit("reshape", [x], {"dims": [-1 if e is None else e for e in moved.held]})
            else:
                self._moved[key] = self.emit("transpose", [x], {"permutation": permutation})
        return Value(self._moved[key], x.shape, x.integer, order)

    def plain(self, x):
        """Numbers in Keras's order of axes."""
        x = self.number(x)
        return self.ordered(x, range(x.rank))

    def plain_any(self, x):
        x = self.any(x)
        return self.ordered(x, range(x.rank))

    def channels_first(self, x):
        x = self.number(x)
        return self.ordered(x, (0, x.rank - 1, *range(1, x.rank - 1)))

    def permuted(self, x, axes):
        """Axis i of the result is axis axes[i]: nothing is moved before a layer needs it."""
        x = self.any(x)
        order = tuple(list(axes).index(axis) for axis in x.order)
        return Value(x.id, tuple(x.shape[axis] for axis in axes), x.integer, order)

    def joined(self, parts, axis):
        order = max(parts, key=lambda part: part.order != tuple(range(part.rank))).order
        parts = [self.ordered(part, order) for part in parts]
        first = parts[0]
        shape = tuple(sum(p.shape[axis] for p in parts) if i == axis else e for i, e in enumerate(first.shape))
        if len(parts) == 1:
            return first
        return Value(self.emit("concat", parts, {"axis": order.index(axis)}), shape, first.integer, order)

    def parts(self, x, axis, sizes):
        """Consecutive parts along an axis of Keras's tensor."""
        x = self.any(x)
        if x.shape[axis] is None:
            raise self.refusal("takes samples apart; each sample must be computed by itself")
        if len(sizes) == 1:
            return [x]
        ids = self.emit("split", [x], {"axis": x.order.index(axis), "sizes": list(sizes)}, which=None)
        return [Value(id, tuple(size if i == axis else e for i, e in enumerate(x.shape)), x.integer, x.order)
                for id, size in zip(ids, sizes)]

    def part(self, x, axis, begin, end):
        """Items [begin, end) of an axis."""
        extent = x.shape[axis]
        sizes = [size for size in (begin, end - begin, extent - end) if size]
        return self.parts(x, axis, sizes)[1 if begin else 0]

    def padded(self, x, axis, before, after, number=0.0):
        """x with more items of this number along an axis."""
        border = [self.ones(tuple(n if i == axis else e for i, e in enumerate(x.shape)), number, x.order) if n else None
                  for n in (before, after)]
        return self.joined([part for part in (border[0], x, border[1]) if part is not None], axis)

    def expanded(self, x, shape):
        """x, repeated along its axes of one item."""
        x = self.number(x)
        factors = tuple(want if have == 1 and want != 1 else 1 for have, want in zip(x.shape, shape))
        if all(factor == 1 for factor in factors):
            return x
        return self.mul(x, self.ones(factors, 1.0, x.order))

    # Values

    def any(self, x):
        """A value for what may be an input, a constant or a number."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Deferred):
            return x.value(self)
        if isinstance(x, Pending):
            return self._input(x, x.integer)
        if isinstance(x, (int, float)):
            return Value(self.emit("constant", [], {"shape": [1], "value": float(x)}), ())
        if isinstance(x, numpy.ndarray):
            return self.constant(x)
        raise self.refusal(f"takes {type(x).__name__} where a tensor is needed")

    def number(self, x):
        """The same of floating-point numbers."""
        value = self._input(x, False) if isinstance(x, Pending) else self.any(x)
        if value.integer:
            raise self.refusal("computes with integers; only an Embedding takes them")
        return value

    def tokens(self, x):
        """Integers, for an embedding."""
        value = self._input(x, True) if isinstance(x, Pending) else self.any(x)
        if not value.integer:
            raise self.refusal("takes numbers that were computed for tokens; tokens must be an input")
        return self.ordered(value, range(value.rank))

    def truth(self, x):
        """1 for what is true or not 0, and 0 for the rest."""
        value = self.number(x)
        return value if value.boolean else self.negation(self.unary("within", value, {"least": 0.0, "most": 0.0}))

    def negation(self, x):
        return self.add(self.scaled(x, -1.0), 1.0)

    def where(self, condition, a, b):
        """a for what is true, else b. condition: 1 or 0 (truth). a, b: tensors or numbers."""
        parts = [self.scaled(given, x) if isinstance(x, (int, float)) else self.mul(x, given)
                 for x, given in ((a, condition), (b, self.negation(condition))) if not (isinstance(x, (int, float)) and x == 0)]
        return self.add(*parts) if len(parts) == 2 else parts[0] if parts else self.scaled(condition, 0.0)

    def constant(self, array, order=None):
        """A constant tensor, held in an order of axes."""
        array = numpy.asarray(array, dtype=numpy.float32)
        order = tuple(range(array.ndim)) if order is None else order
        held = array.transpose(order)
        if held.size and bool((held == held.reshape(-1)[0]).all()) and bool(numpy.isfinite(held).all()):
            return self.ones(array.shape, float(held.reshape(-1)[0]), order)
        name = self.variables.constant(held)
        if name not in self.declared:
            self.declared[name] = self.graph.parameter(name, list(held.shape) or [1])
        return Value(self.declared[name], array.shape, order=order)

    def ones(self, shape, number=1.0, order=None):
        """Equal elements, for each sample if axis 0 is None."""
        shape = tuple(shape)
        order = tuple(range(len(shape))) if order is None else order
        held = [shape[axis] for axis in order]
        if None not in held:
            id = self.emit("constant", [], {"shape": held or [1], "value": float(number)})
        elif held.index(None) == 0 and held.count(None) == 1:
            id = self.emit("fill", [self.batch()], {"shape": held[1:], "value": float(number)})
        else:
            raise self.refusal("makes a tensor whose later axes depend on the number of samples")
        return Value(id, shape, order=order)

    def batch(self):
        """An input, for operations that need the number of samples."""
        return next(iter(self.inputs.values()))

    def parameter(self, variable, layout=None):
        """A variable of the model as a parameter, held in this layout."""
        held = self.variables.held(variable, layout or as_held(variable.shape), self)
        if held.name not in self.declared:
            self.declared[held.name] = self.graph.parameter(held.name, list(held.layout.shape))
        return Value(self.declared[held.name], held.layout.shape)

    def add_statistic(self, variable, value, momentum):
        """Adds a statistic of the batch, [C], to one that moves: m · momentum + s · (1 - momentum)."""
        held = self.variables.statistic(variable, 1.0 - momentum, self)
        if held.name in self.statistics:
            raise self.refusal("is called twice in a step, so its statistics move twice; use a layer for each call")
        self.statistics.add(held.name)
        buffer = self.graph.statistic(held.name, list(held.layout.shape))
        self.graph.add("accumulate", [buffer, value.id, self.batch().id])

    def random_inputs(self):
        """The inputs from which random numbers are made: sample ids and random state."""
        if not self.is_training:
            raise self.refusal("draws numbers in evaluation, too (training=True)")
        self.draws = True
        if self._random is None:
            self._random = (Value(self.graph.input("sample", "i32", [self.SAMPLES, 2]), ()),
                            Value(self.graph.input("random", "i32", [4], batched=False), ()))
        return self._random

    def dropped(self, x, rate):
        """Elements that are zero by chance. The draws depend on the sample, so they are the same for every strategy."""
        x = self.number(x)
        if rate == 0 or self.check:
            return x
        if x.held[0] is not None:
            raise self.refusal("drops elements of a tensor whose axis 0 is not the samples")
        return Value(self.emit("dropout", [x, *self.random_inputs()], {"rate": float(rate)}), x.shape, order=x.order)

    # Places

    @contextlib.contextmanager
    def inside(self, layer):
        """Operations belong to this layer. A layer that is called twice draws different numbers."""
        before, scope = self.layer, self.graph.scope
        name = getattr(layer, "path", None) or layer.name
        self._calls[name] = self._calls.get(name, 0) + 1
        self.layer, self.graph.scope = layer, name if self._calls[name] == 1 else f"{name}.{self._calls[name]}"
        try:
            yield
        finally:
            self.layer, self.graph.scope = before, scope

    @contextlib.contextmanager
    def mode(self, training):
        """Layers that are not told another mode have this one; None: that of now."""
        before = self.training
        self.training = before if training is None else bool(training)
        try:
            yield
        finally:
            self.training = before

    def place(self):
        return f"layer '{self.layer.name}', {type(self.layer).__name__}" if self.layer is not None else "the loss"

    def refusal(self, sentence):
        kind = type(self.layer).__name__ if self.layer is not None else "the loss"
        return Refusal(f"{kind} {sentence} ({self.place()})")

    # The rest is of this class alone.

    def prepare(self, prepared):
        """Another input that Keras computes, with a name of its own."""
        base, number = prepared.name, 2
        while prepared.name in self.prepared:  # as of a layer that is called twice
            prepared.name, number = f"{base}_{number}", number + 1
        prepared.name = "x" if prepared.name == self._prepared_x else prepared.name
        self.prepared[prepared.name] = prepared
        return prepared

    def _input(self, pending, integer):
        value = self.inputs.get(pending.name)
        if value is None:
            shape = [self.SAMPLES, *pending.shape[1:]]
            if None in shape:
                raise Refusal(f"the input '{pending.name}' has the shape {pending.shape}; all extents but the number of "
                              "samples must be known: give Input the whole shape")
            id = self.graph.input(pending.name, "i32" if integer else "f32", shape)
            value = self.inputs[pending.name] = Value(id, pending.shape, integer)
        if value.integer != integer:
            raise self.refusal(f"takes the input '{pending.name}' for {'tokens' if integer else 'numbers'}, but another "
                               "layer takes it for the other; make two inputs of it")
        return value

    def _binary(self, name, a, b):
        """Element by element, with axes of one item repeated, aligned at the last axis."""
        a, b = (x if isinstance(x, numpy.ndarray) else self.number(x) for x in (a, b))
        a_shape, b_shape = tuple(a.shape), tuple(b.shape)
        rank = max(len(a_shape), len(b_shape))
        large = a if isinstance(b, numpy.ndarray) or (isinstance(a, Value) and extent_of(a) >= extent_of(b)) else b
        order = large.order if len(large.shape) == rank else tuple(range(rank))
        a, b = (self._aligned(x, rank, order) for x in (a, b))
        return Value(self.emit(name, [a, b]), broadcast(a.shape, b.shape, self), order=order)

    def _aligned(self, x, rank, order):
        """With so many axes, held in this order."""
        if isinstance(x, numpy.ndarray):
            return self.constant(x.reshape(*[1] * (rank - x.ndim), *x.shape), order)
        if x.rank == 0:
            return Value(x.id, (1,) * rank, order=order)  # the graph's [1] fits any shape
        if x.rank < rank:
            x = self.reshaped(x, (*[1] * (rank - x.rank), *x.shape))
        return self.ordered(x, order)


def extent_of(value):
    """How many elements a value has, if there were two samples."""
    return math.prod(2 if extent is None else extent for extent in value.shape)


def broadcast(a, b, low):
    """The shape of two shapes of one rank whose axes of one item are repeated."""
    shape = []
    for one, other in zip(a, b):
        if one != other and 1 not in (one, other):
            raise low.refusal(f"combines the shapes {list(a)} and {list(b)}")
        shape.append(other if one == 1 else one)
    return tuple(shape)
