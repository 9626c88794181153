"""What the Steps of a group's processes ask each other: no process trains another thing, or with other values, without a word."""

import zlib

import numpy
import torch

from telar.group import Group
from telar.torch.following import numbers
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

    def capture(self, captured, optimizer, settings, size):
        """All make a session of the same model. settings: of the Step, by their names. size: samples of this process's part;
        returns those of all.
        """
        if captured.host:
            raise Refusal("PyTorch computes a part of the module's inputs of each batch, such as weights of labels, and each process "
                          "of a group sees only its part of a batch; compute them before, and give them as tensors of the batch")
        self._group.agree(f"captures a module and a loss (checksum of their operations: {crc_of(captured.operations)})")
        groups = [{key: float(value) if type(value) is int else value for key, value in group.items()
                   if key not in ("lr", "params") and isinstance(value, PLAIN)} for group in optimizer.param_groups]
        return sum(int(own) for own in self._group.agree(f"trains by {type(optimizer).__name__} with {groups} and {settings}", str(size)))

    def step(self, step, optimizer, update, batch):
        """parts() of a training step."""
        rates = ", ".join(f"{group.get('lr', 0.0):g}" for group in optimizer.param_groups)
        return self.parts(f"{'makes' if update else 'adds the gradients of'} step {step} with the learning rate {rates}", batch)

    def parts(self, what, batch):
        """The samples of a batch before this process's part, and those of all. what: is done with it, in words."""
        forms = ", ".join(f"{tuple(tensor.shape[1:])}" for tensor in batch)
        sizes = [int(own) for own in self._group.agree(f"{what}, of samples {forms}", str(len(batch[0])))]
        self.whole = sum(sizes)
        return sum(sizes[:self._group.rank]), self.whole

    def require_same_values(self, session):
        """Whether the sessions of all processes have the same parameters."""
        names = [name for name, slot in session.state_names if not slot]
        own = [float(numpy.linalg.norm(session.read_state(name).astype("f8"))) for name in names]
        rows = [[float(norm) for norm in text.split()] for text in self._group.agree("compares its values", " ".join(map(repr, own)))]
        for rank, row in enumerate(rows):
            for name, norm, other in zip(names, rows[0], row):
                if not abs(norm - other) <= TOLERANCE * max(abs(norm), abs(other)):
                    raise Refusal(f"'{name}' has the norm {norm:g} on rank 0 and {other:g} on rank {rank}; a value that one process "
                                  "writes, all must write")


def crc_of(parts):
    """A checksum of texts and tensors."""
    crc = 0
    for part in parts:
        crc = zlib.crc32(part.encode() if isinstance(part, str) else numbers(torch.as_tensor(part)).tobytes(), crc)
    return f"{crc:08x}"
