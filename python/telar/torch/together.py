"""What the Steps of a group's processes ask each other: no process trains another thing, or with other values, without a word."""

import json
import zlib

import torch

from telar import _native
from telar.group import Group
from telar.torch.following import norm_of, numbers
from telar.torch.values import Refusal

PLAIN = (int, float, str, tuple, list, type(None))  # options of optimizers that a text has
TOLERANCE = 1e-3  # of norms: hosts of several kinds round differently


class Together:
    """The group of a Step."""

    def __init__(self, group):
        if not isinstance(group, Group):
            raise Refusal(f"group must be what telar.join() returns, not {type(group).__name__}")
        self.native, self._group = group.native, group
        self.whole = 0  # samples of the last batch, of all processes

    def begin(self, module, optimizer):
        """Gives all modules the values of rank 0's."""
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        state = crc_of(tensor for of_parameter in optimizer.state.values() for tensor in of_parameter.values())
        names = crc_of(f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in tensors.items())
        self._group.agree(f"begins with {len(tensors)} tensors of a module (checksum of their names and shapes: {names}) "
                          f"and an optimizer of the state {state}")
        with torch.no_grad():
            for tensor in tensors.values():
                own = tensor.detach().cpu().contiguous()
                self.native.broadcast(own.reshape(-1).view(torch.uint8).numpy())
                if self._group.rank > 0:
                    tensor.copy_(own)

    def capture(self, captured, optimizer, settings, size, parts):
        """All make a session of the same model. settings: of the Step, by their names. size: samples of this process's part of
        the first batch; parts: of which the batch consists. Returns the samples of the batch.
        """
        if captured.host:
            raise Refusal("PyTorch computes a part of the module's inputs of each batch, such as weights of labels, and each process "
                          "of a group sees only its part of a batch; compute them before, and give them as tensors of the batch")
        self._group.agree(f"captures a module and a loss (checksum of their operations: {crc_of(captured.operations)})")
        groups = [{key: float(value) if type(value) is int else value for key, value in group.items()
                   if key not in ("lr", "params") and isinstance(value, PLAIN)} for group in optimizer.param_groups]
        sizes = self._exchanged(f"trains by {type(optimizer).__name__} with {groups} and {settings}", size)
        return sum(sizes) * parts // len(sizes)

    def step(self, step, optimizer, update, batch, values):
        """parts() of a training step."""
        rates = ", ".join(f"{group.get('lr', 0.0):g}" for group in optimizer.param_groups)
        return self.parts(f"{'makes' if update else 'adds the gradients of'} step {step} with the learning rate {rates}", batch, values)

    def parts(self, what, batch, values):
        """The samples of a batch before this process's part, and those of all. what: is done with it, in words. values: the
        Following of the session that does it.
        """
        tensors = [tensor for tensor in batch if tensor is not None]
        forms = ", ".join(f"{tuple(tensor.shape[1:])}" for tensor in tensors)
        checksum = crc_of_bytes(tensors) if values.session.repeats_samples else ""
        rows = self._exchanged(f"{what}, of samples {forms}", [len(tensors[0]), checksum, values.written])
        values.written.clear()
        sizes, checksums, norms = zip(*rows)
        require_same_norms(norms)
        before, self.whole = values.session.place_in_batch(sizes, checksums)
        return before, self.whole

    def read(self, what):
        """All processes read values that are divided among them."""
        try:
            self._group.agree(what)
        except _native.Error as error:
            raise Refusal("the strategy divides values of the module or the optimizer among the processes of the group, so all must read "
                          f"them together; after sync() of the Step in all of them, each has the values of that step: {error}") from None

    def require_same_values(self, session, tensors):
        """Whether all processes have the same values: of these tensors, and of the session what is not divided among them."""
        norms = {name: norm_of(numbers(tensors[name]) if name in tensors else session.read_state(name))
                 for name, slot in session.state_names if not slot and (name in tensors or not session.is_divided(name))}
        require_same_norms(self._exchanged("compares its values", norms))

    def _exchanged(self, what, own):
        """What all processes have, in rank order: values that JSON has."""
        return [json.loads(text) for text in self._group.agree(what, json.dumps(own))]


def require_same_norms(rows):
    """rows: the norms of tensors by their names, of each process."""
    for rank, row in enumerate(rows):
        for name in dict.fromkeys([*rows[0], *row]):
            norm, other = rows[0].get(name), row.get(name)
            if norm is None or other is None:
                has, has_not = (0, rank) if other is None else (rank, 0)
                raise Refusal(f"'{name}' was written on rank {has} and not on rank {has_not}; a value that one process writes, all must "
                              "write")
            if not abs(norm - other) <= TOLERANCE * max(abs(norm), abs(other)):
                raise Refusal(f"'{name}' has the norm {norm:g} on rank 0 and {other:g} on rank {rank}; a value that one process "
                              "writes, all must write")


def crc_of_bytes(tensors):
    crc = 0
    for tensor in tensors:
        crc = zlib.crc32(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(), crc)
    return f"{crc:08x}"


def crc_of(parts):
    """A checksum of texts and tensors."""
    crc = 0
    for part in parts:
        crc = zlib.crc32(part.encode() if isinstance(part, str) else numbers(torch.as_tensor(part)).tobytes(), crc)
    return f"{crc:08x}"
