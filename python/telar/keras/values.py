"""What a tensor of Keras is while the graph of a model is built."""

import dataclasses

import keras
import numpy

from telar.refusal import Refusal

__all__ = ["Layout", "Pending", "Refusal", "Value", "as_held", "numbers"]


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the graph under construction.

    shape: as Keras has it; None is the number of samples.
    order: axis i of the graph's tensor is axis order[i] of Keras's. Images are [N, H, W, C] to Keras, and [N, C, H, W]
    in the graph from their first convolution to the first layer that depends on the order.
    logits: of probabilities, the input of the activation that made them; with TensorFlow, Keras computes losses of it.
    """

    id: int
    shape: tuple
    integer: bool = False
    order: tuple = None
    logits: object = None

    def __post_init__(self):
        if self.order is None:
            object.__setattr__(self, "order", tuple(range(len(self.shape))))

    @property
    def rank(self):
        return len(self.shape)

    @property
    def held(self):
        """The shape of the graph's tensor."""
        return tuple(self.shape[axis] for axis in self.order)


@dataclasses.dataclass(frozen=True)
class Pending:
    """An input of the model whose element type follows from its first use: tokens of an embedding, or numbers."""

    name: str
    shape: tuple
    integer: bool


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
