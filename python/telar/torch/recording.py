"""What a module and its loss compute, operation by operation, without computing it.

A graph keeps the numbers that Python had when it was captured. So the operations of a step are recorded then and later,
with their numbers and constant tensors: what differs has changed in Python.
"""

import hashlib
import sys
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_

from telar.torch.capture import DRAWS_OUTSIDE, WithLoss, begin_training, drawn, modes_kept, values_not_compared
from telar.torch.attributes import untouched
from telar.torch.values import Refusal

LARGEST_CONSTANT = 1 << 20  # elements whose values are compared


@dataclass(frozen=True)
class Call:
    """An operation with its arguments, and the line that called it."""

    name: str
    arguments: tuple
    place: str


class Recorder(TorchDispatchMode):
    """Notes each operation of ATen. held: the names of parameters and buffers by their memory; their values change."""

    def __init__(self, held):
        super().__init__()
        self.held, self.calls = held, []
        self.made = {}  # id of a result -> (the result, its number)

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        masks = masks_in(function, arguments)
        result = all_rows(arguments[0], masks) if masks else function(*arguments, **(keywords or {}))
        if function.namespace != "prim":  # questions about a tensor
            given = []
            tree_map_(lambda leaf: given.append(self._described(leaf)), (arguments, keywords or {}))
            self.calls.append(Call(str(function), tuple(given), caller()))
            tree_map_(lambda leaf: self.made.setdefault(id(leaf), (leaf, len(self.made))), result)
        return result

    def _described(self, leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf if isinstance(leaf, (int, float, bool, str, type(None))) else str(leaf)
        form = f"{leaf.dtype} {list(leaf.shape)}"
        if isinstance(leaf, FakeTensor):
            return f"{form}, result {self.made[id(leaf)][1]}" if id(leaf) in self.made else form
        if leaf.untyped_storage().data_ptr() in self.held:
            return self.held[leaf.untyped_storage().data_ptr()]
        if leaf.numel() > LARGEST_CONSTANT:
            return f"{form}, version {leaf._version}"
        with unset_fake_temporarily():
            if leaf.numel() == 1:
                return f"{form} of {leaf.item()}"
            values = leaf.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        return f"{form} {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def masks_in(function, arguments):
    """The masks among the index tensors of x[...], with their places."""
    if function is not torch.ops.aten.index.Tensor:
        return []
    return [(place, mask) for place, mask in enumerate(arguments[1]) if mask is not None and mask.dtype == torch.bool]


def all_rows(x, masks):
    """x[mask] as if the mask chose everything: without its values nobody knows how many it chooses."""
    place, mask = masks[0]
    return x.new_empty((*x.shape[:place], mask.numel(), *x.shape[place + mask.dim():]))


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
        held = {tensor.untyped_storage().data_ptr(): name.removeprefix("model.")
                for name, tensor in (*self._whole.named_parameters(), *self._whole.named_buffers())}
        recorder = Recorder(held)
        before = drawn()
        with modes_kept(self._whole), untouched(self._whole), values_not_compared():
            begin_training(self._whole)
            try:
                with torch.enable_grad(), self._fakes, recorder:
                    self._whole(*self._batch)
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
                raise Refusal(f"the module and its loss cannot be run again without computing them: {first}") from error
            if drawn() != before:
                raise Refusal(f"the module {DRAWS_OUTSIDE}")
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
