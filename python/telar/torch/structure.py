"""Batches of more than tensors: dicts, lists, dataclasses and NumPy arrays.

A graph takes tensors in a row. So a batch is that, and the structure that it had, of which it is made again for the module and
the loss.
"""

import dataclasses
from collections.abc import Mapping

import numpy
import torch

from telar.torch.capture import inputs_and_target, is_criterion
from telar.torch.values import Refusal

TENSOR = "a tensor"


@dataclasses.dataclass(frozen=True)
class Constant:
    """A member that is no tensor: None, a truth value or a text."""

    value: object


@dataclasses.dataclass(frozen=True)
class Structure:
    """Of a type, whose members have these names, or these numbers."""

    kind: type
    names: tuple
    members: tuple

    def rebuilt(self, tensors):
        """What had this structure, of an iterator of its tensors."""
        members = [rebuilt(member, tensors) for member in self.members]
        if issubclass(self.kind, Mapping):
            return self.kind(dict(zip(self.names, members)))
        if dataclasses.is_dataclass(self.kind):
            return self.kind(**dict(zip(self.names, members)))
        return self.kind(*members) if hasattr(self.kind, "_fields") else self.kind(members)

    def paths(self):
        """The names that lead to each tensor."""
        for name, member in zip(self.names, self.members):
            if member is TENSOR:
                yield (name,)
            elif isinstance(member, Structure):
                yield from ((name, *path) for path in member.paths())


def rebuilt(member, tensors):
    if member is TENSOR:
        return next(tensors)
    return member.value if isinstance(member, Constant) else member.rebuilt(tensors)


def flattened(batch):
    """The tensors of a batch, a tuple; and its structure, or None if it is these tensors."""
    if all(isinstance(member, torch.Tensor) for member in batch):
        return batch, None
    tensors = []
    structure = described(tuple(batch), tensors)
    return tuple(tensors), None if all(member is TENSOR for member in structure.members) else structure


def described(value, tensors):
    """What a value is. Appends its tensors."""
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return TENSOR
    if isinstance(value, Mapping):
        names, members = tuple(value), tuple(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if field.init)
        members = tuple(getattr(value, name) for name in names)
    elif isinstance(value, (list, tuple)):
        names, members = tuple(range(len(value))), tuple(value)
    elif value is None or isinstance(value, (bool, str)):
        return Constant(value)
    else:
        raise Refusal(f"a batch must be of tensors, also in dicts, lists and dataclasses, not of {type(value).__name__}; give a number as a "
                      "tensor with one value for each sample")
    return Structure(type(value), names, tuple(described(member, tensors) for member in members))


class OfStructure:
    """A loss of batches with a structure, as a function of the module and of their tensors."""

    def __init__(self, loss, structure):
        self._loss, self._structure = loss, structure
        self.names = [str(path[-1]) if isinstance(path[-1], str) else f"x{i + 1}" for i, path in enumerate(structure.paths())]

    def __call__(self, model, *tensors):
        batch = self._structure.rebuilt(iter(tensors))
        if is_criterion(self._loss, len(batch)):
            inputs, target = inputs_and_target(batch)
            return self._loss(model(*inputs), target)
        return self._loss(model, *batch)


def placed(inputs, structure):
    """The tensors of inputs at their places in a batch; of such a structure, None where there is none."""
    tensors, given = flattened(inputs)
    if structure is None or given is None:
        return tensors
    found = dict(zip(given.paths(), tensors))
    unknown = set(found) - set(structure.paths())
    if unknown:
        raise Refusal(f"the batches have no {', '.join('.'.join(map(str, path)) for path in sorted(unknown, key=str))}")
    return [found.get(path) for path in structure.paths()]


def with_tensors(batch):
    """The batch, of tensors in place of NumPy's arrays."""
    tensors, structure = flattened(batch)
    return tensors if structure is None else structure.rebuilt(iter(tensors))
