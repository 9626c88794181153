"""What a module and its loss compute, operation by operation, without computing it.

A graph keeps the numbers that Python had when it was captured. So the operations of a step are recorded then and later,
with their numbers and constant tensors: what differs has changed in Python.
"""

import hashlib
import random
import sys
from dataclasses import dataclass

import numpy
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from telar.torch.capture import WithLoss, modes_kept
from telar.torch.check import untouched
from telar.torch.values import Refusal

LARGEST_CONSTANT = 1 << 20  # elements whose values are compared


@dataclass(frozen=True)
class Call:
    """An operation with its arguments, and the line that called it."""

    name: str
    arguments: tuple
    place: str


class Recorder(TorchDispatchMode):
    """Notes each operation of ATen. held: the memory of parameters and buffers, which change by themselves."""

    def __init__(self, held):
        super().__init__()
        self.held, self.calls = held, []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        given = []
        torch.utils._pytree.tree_map_(lambda leaf: given.append(self._described(leaf)), (arguments, keywords or {}))
        self.calls.append(Call(str(function), tuple(given), caller()))
        return function(*arguments, **(keywords or {}))

    def _described(self, leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf if isinstance(leaf, (int, float, bool, str, type(None))) else str(leaf)
        form = f"{leaf.dtype} {list(leaf.shape)}"
        if isinstance(leaf, FakeTensor) or leaf.untyped_storage().data_ptr() in self.held:
            return form
        if leaf.numel() > LARGEST_CONSTANT:
            return f"{form}, version {leaf._version}"
        if leaf.numel() == 1:
            return f"{form} of {leaf.item()}"
        return f"{form} {hashlib.sha256(leaf.detach().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]}"


def caller():
    """The line of the user's code that runs now."""
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/torch/" not in path and "/telar/" not in path:
            return f'"{path}", line {frame.f_lineno}, in {frame.f_code.co_name}'
        frame = frame.f_back
    return ""


class Recording:
    """The operations of a training step of a module and its loss, for batches of the form of an example."""

    def __init__(self, model, loss, batch):
        self._whole = WithLoss(model, loss)
        self._fakes = FakeTensorMode(allow_non_fake_inputs=True)
        self._batch = [self._fakes.from_tensor(tensor) for tensor in batch]
        self._first = self._calls()

    def require_same(self):
        """Raises Refusal if another number or operation has taken the place of one at the start."""
        now = self._calls()
        for before, after in zip(self._first, now):
            if (before.name, before.arguments) != (after.name, after.arguments):
                raise changed(before, after)
        if len(now) != len(self._first):
            longer = max(now, self._first, key=len)[min(len(now), len(self._first))]
            raise Refusal(f"the module or the loss has {len(now)} operations now, but had {len(self._first)} when it was captured at the "
                          f"first step; the first that only one of them has is {named(longer)}; {WAY_OUT}")

    def _calls(self):
        held = {t.untyped_storage().data_ptr() for t in (*self._whole.parameters(), *self._whole.buffers())}
        recorder = Recorder(held)
        before = drawn()
        with modes_kept(self._whole), untouched(self._whole), self._fakes, recorder:
            self._whole.train()
            self._whole(*self._batch)
        if drawn() != before:
            raise Refusal(f"the module or the loss draws numbers from Python's random or numpy.random, which a graph would keep as they "
                          f"were at the first step; draw them with PyTorch, or outside, and give them as a tensor of the batch, or use "
                          "engine=\"torch\"")
        return recorder.calls


WAY_OUT = ("a graph keeps the numbers of its capture, so give what changes as a tensor of the batch, make a new Step after each change, "
           "or use engine=\"torch\"")


def changed(before, after):
    """The Refusal for an operation in place of another."""
    if before.name != after.name:
        what = f"where it had {named(before)}, it has {named(after)}"
    else:
        pairs = [(a, b) for a, b in zip(before.arguments, after.arguments) if a != b]
        a, b = pairs[0] if pairs else (before.arguments, after.arguments)
        what = f"{named(after)} takes {b} where it took {a}"
    return Refusal(f"the module or the loss has changed since it was captured at the first step: {what}; {WAY_OUT}")


def named(call):
    name = call.name.removeprefix("aten.").split(".")[0]
    return f"{name} ({call.place})" if call.place else name


def drawn():
    """Python's own state of chance."""
    kind, keys, *rest = numpy.random.get_state()
    return random.getstate(), kind, keys.tobytes(), tuple(rest)
