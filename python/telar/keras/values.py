"""What a tensor of Keras is while the graph of a model is built."""

import dataclasses

import keras
import numpy

from telar.refusal import Refusal

__all__ = ["TENSORS", "Batch", "Deferred", "Layout", "Pending", "Prepared", "Refusal", "Value", "as_held", "numbers"]


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor of the graph under construction. Only its mask changes, as that of a tensor of Keras does.

    shape: as Keras has it; None is the number of samples.
    order: axis i of the graph's tensor is axis order[i] of Keras's. Images are [N, H, W, C] to Keras, and [N, C, H, W]
    in the graph from their first convolution to the first layer that depends on the order.
    logits: of probabilities, the input of the activation that made them; with TensorFlow, Keras computes losses of it.
    boolean: whether the numbers are 0 and 1, for what is false and true to Keras.
    mask: which steps count (a boolean tensor), or None: all.
    of_batch: a function of a Batch that gives the values, or None: they depend on the model's variables.
    """

    id: int
    shape: tuple
    integer: bool = False
    order: tuple = None
    logits: object = None
    boolean: bool = False
    mask: object = None
    of_batch: object = None

    def __post_init__(self):
        if self.order is None:
            self.order = tuple(range(len(self.shape)))

    @property
    def rank(self):
        return len(self.shape)

    @property
    def held(self):
        """The shape of the graph's tensor."""
        return tuple(self.shape[axis] for axis in self.order)


@dataclasses.dataclass(eq=False)
class Pending:
    """An input of the model whose element type follows from its first use: tokens of an embedding, or numbers.

    integer, boolean: whether it has these to Keras.
    """

    name: str
    shape: tuple
    integer: bool
    boolean: bool = False
    mask: object = None

    def of_batch(self, batch):
        return batch.inputs[self.name]


@dataclasses.dataclass(eq=False)
class Prepared(Pending):
    """An input of the graph that Keras computes of each batch: what a layer gives that Telar does not have.

    compute: a function of a Batch; of_training: whether it is that of the layer in training.
    """

    compute: object = None
    of_training: bool = False

    def of_batch(self, batch):
        return self.compute(batch)


@dataclasses.dataclass(eq=False)
class Deferred:
    """A boolean tensor that enters the graph when an operation takes it.

    What compares the tokens of an input depends on how other layers take this input.
    make: a function of the lowering that gives its Value; of_batch, mask: as Value has them.
    """

    shape: tuple
    make: object
    of_batch: object = None
    mask: object = None
    boolean = True
    integer = False
    made: object = None

    @property
    def rank(self):
        return len(self.shape)

    def value(self, low):
        if self.made is None:
            self.made = dataclasses.replace(self.make(low), boolean=True, of_batch=self.of_batch)
        return self.made


class Batch:
    """A batch as the model's inputs have it, for what Keras computes of it alone.

    inputs: arrays by name. size: its number of samples. known: results of this batch, by what gives them.
    """

    def __init__(self, inputs, size):
        self.inputs, self.size, self.known = inputs, size, {}


TENSORS = (Value, Pending, Deferred)


@dataclasses.dataclass(frozen=True)
class Layout:
    """How Telar holds a variable: with its axes taken apart, in another order, and joined again.

    apart: the variable's shape with more axes. order: of these. shape: of Telar's parameter.
    exchanged: an axis of `apart` whose first two items change places.
    """

    apart: tuple
    order: tuple
    shape: tuple
    exchanged: int = None

    def to_telar(self, values):
        apart = self._exchanged(numpy.asarray(values, dtype=numpy.float32).reshape(self.apart))
        return numpy.ascontiguousarray(apart.transpose(self.order)).reshape(self.shape)

    def to_keras(self, values, shape):
        """shape: of the variable."""
        joined = values.reshape([self.apart[axis] for axis in self.order])
        return numpy.ascontiguousarray(self._exchanged(joined.transpose(numpy.argsort(self.order)))).reshape(shape)

    def _exchanged(self, apart):
        if self.exchanged is None:
            return apart
        places = list(range(apart.shape[self.exchanged]))
        places[:2] = [1, 0]
        return apart.take(places, axis=self.exchanged)


def as_held(shape):
    """The layout of a variable that Telar holds as it is."""
    shape = tuple(shape)
    return Layout(shape, tuple(range(len(shape))), shape or (1,))


def numbers(tensor):
    """The values of a variable or tensor of Keras's backend, as an array."""
    return numpy.asarray(keras.ops.convert_to_numpy(tensor))
