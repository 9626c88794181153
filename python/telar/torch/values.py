"""What a value of a captured program is while its graph is built."""

import dataclasses
import enum

from telar.refusal import Refusal

__all__ = ["Refusal", "Repeated", "Total", "Uniform", "Value", "samples_of"]


def samples_of(batch):
    """The number of samples of a batch of tensors, some of which may be None."""
    return len(next(tensor for tensor in batch if tensor is not None))


class Total(enum.Enum):
    """How a number depends on the samples of a batch. A graph adds sums over samples, never means."""

    SUM = "sum over the samples"
    MEAN = "mean over the samples; the graph has it times the number of samples"


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the graph under construction.

    shape: as the program has it; extents that depend on the batch are symbolic (torch.SymInt).
    The graph's tensor has the same extents, but a scalar is [1].
    """

    id: int
    shape: tuple
    integer: bool = False
    total: Total = None

    @property
    def rank(self):
        return len(self.shape)


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A tensor with equal elements whose extents depend on the batch. It is in the graph only where it is used."""

    number: float
    shape: tuple


@dataclasses.dataclass(frozen=True)
class Repeated:
    """A constant tensor, [1, ...], once for each sample. It is in the graph only where it is used."""

    tensor: object
    shape: tuple
