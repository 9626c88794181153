"""The values of a module and its optimizer follow those of a session, whenever somebody reads them.

After a step the session is ahead of the module. Meanwhile the module's tensors and the optimizer's are of a class that tells
of each use by PyTorch: the forward of a layer, state_dict(), a copy, pickle, a reference that was kept. Before that use the
values are written, and the tensors are ordinary ones again, until the next step. So nobody sees a tensor that is behind, and a
step costs nothing where nobody looks.

A view of the same memory does not tell, such as a `parameter.data` that was kept, or a NumPy array. PyTorch counts the owners
of memory; where a tensor has another one, values are written after each step.

What is not behind may be written by anybody. So before the next step it is compared with what the session has.
"""

import contextlib
import copy
import gc
import itertools
import os
import threading
import warnings
import weakref

import numpy
import torch
from torch.utils._python_dispatch import _disable_current_modes

from telar.torch.values import Refusal

BEHIND = weakref.WeakSet()  # of Following
NUMBERS = itertools.count()  # of Following, as they were made
OWNERS = "_telar_owners"  # an attribute of tensors that tell: what is behind lives as long as one of them
WORKER = threading.local()  # computes: whether this thread is a worker of a step


def of_tensors(names, kind):
    return {getattr(getattr(torch.Tensor, name), kind) for name in names.split()}


WITHOUT_VALUES = of_tensors("grad requires_grad shape dtype device layout is_leaf ndim grad_fn is_cuda is_sparse is_meta is_quantized "
                            "itemsize nbytes output_nr retains_grad _backward_hooks _post_accumulate_grad_hooks", "__get__")
WITHOUT_VALUES |= of_tensors("grad", "__set__") | of_tensors("grad", "__delete__")
WITHOUT_VALUES |= {getattr(torch.Tensor, name) for name in (
    "size", "dim", "ndimension", "numel", "nelement", "stride", "element_size", "is_contiguous", "is_floating_point", "is_complex",
    "get_device", "register_hook", "register_post_accumulate_grad_hook", "__len__")}
WITHOUT_VALUES |= {torch.is_floating_point, torch.is_complex, torch.numel}


class Watched(torch.Tensor):
    """A tensor that tells of its use."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function not in WITHOUT_VALUES:
            catch_up(with_state=WatchedState in types)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*arguments, **(keywords or {}))

    def __deepcopy__(self, memo):
        return copy.deepcopy(told(self), memo)

    def __reduce_ex__(self, protocol):
        return told(self).__reduce_ex__(protocol)


class WatchedParameter(Watched, torch.nn.Parameter):
    """The same of a parameter."""


class WatchedState(Watched):
    """The same of an optimizer's state."""


OF_MODULES = {torch.Tensor: Watched, torch.nn.Parameter: WatchedParameter}
OF_OPTIMIZERS = {torch.Tensor: WatchedState}
PLAIN = {Watched: torch.Tensor, WatchedParameter: torch.nn.Parameter, WatchedState: torch.Tensor}


def told(tensor):
    """The tensor, an ordinary one again: PyTorch's copies are of the class that it had when they were begun."""
    catch_up(with_state=isinstance(tensor, WatchedState))
    release([tensor])
    return tensor


def catch_up(with_state=False):
    """Writes the values of all sessions that are ahead of a module. with_state: those of optimizers, too."""
    if getattr(WORKER, "computes", False):
        raise Refusal("the module or the loss reads tensors of the module that is trained, while workers compute with copies of it; let "
                      "the loss take the module that it is given, and choose the strategy single for other references")
    for one in sorted(BEHIND, key=lambda one: one.number):  # the same order in all processes of a group
        one.catch_up(with_state)


os.register_at_fork(before=lambda: [one.catch_up(True) for one in sorted(BEHIND, key=lambda one: one.number) if not one.is_away])


def owners_of(tensor):
    """How many tensors hold the memory of a tensor; all numbers are greater by what the question itself needs."""
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


ALONE = owners_of(torch.zeros(1))


def can_tell(tensors, classes):
    """Whether tensors can tell of their use: not one of a class of its own, nor one whose memory another tensor has, too."""
    with torch._C.DisableTorchFunctionSubclass():
        return all((type(tensor) in classes or type(tensor) in PLAIN) and owners_of(tensor) <= ALONE for tensor in tensors)


def let_tell(tensors, owner, classes):
    for tensor in tensors:
        tensor.__class__ = classes.get(type(tensor), type(tensor))
        vars(tensor).setdefault(OWNERS, []).append(owner)


def release(tensors):
    for tensor in tensors:
        tensor.__class__ = PLAIN.get(type(tensor), type(tensor))
        vars(tensor).pop(OWNERS, None)


@contextlib.contextmanager
def outside_of_modes():
    """What is done to tensors meanwhile is done, whatever transforms PyTorch's operations here."""
    modes = _disable_current_modes() if torch._C._len_torch_dispatch_stack() else contextlib.nullcontext()
    with modes, torch._C._DisableFuncTorch(), torch.no_grad():
        yield


class Following:
    """What a module and an optimizer have of a session's values. It holds neither, so that they may end before the session.

    moving: the tensors that steps change, by their names in the session; fixed: the others; counters: pairs (buffer, how often a
    step counts in it); slots: the optimizer's names of the session's state, by (parameter, slot); counts_steps: whether the
    optimizer counts steps there, too; at_each_step: whether values are written after each step, whoever reads them; meet: None, or
    a function of a sentence, which is called where all processes of a group must read together.
    """

    def __init__(self, session, moving, fixed, counters, optimizer, slots, counts_steps, at_each_step, meet=None):
        self.session, self.lock, self.number = session, threading.RLock(), next(NUMBERS)
        self.is_away = False  # whether parameter servers have the values
        self._moving, self._fixed = references(moving), references(fixed)
        self._counters = references(dict(enumerate(buffer for buffer, _ in counters)))
        self._counts = [count for _, count in counters]
        self._optimizer, self._slots, self._counts_steps = weakref.ref(optimizer), slots, counts_steps
        self._at_each_step, self._meet = at_each_step, meet
        self._is_divided = any(session.is_divided(name) for name in moving)
        self._state_is_divided = any(session.is_divided(*name) for name in slots)
        self.written = {}  # the norms of what was written into the module and the optimizer, for the others of a group
        self._ids = {id(tensor) for tensor in (*moving.values(), *fixed.values())}
        self._steps, self._uncounted = 0, 0  # that the optimizer has made; those that are not in the counters
        self._is_ahead = self._is_watched = False  # whether the session has newer values; whether the module's tensors tell
        self._was_open = True  # since the last step: somebody may have changed something
        self._kept = {}  # the values of moving tensors, where these do not tell
        self._has_collected = False  # what is garbage
        self._noted = {}  # versions and sums of the fixed ones
        self._state_is_ahead = self._state_is_watched = False
        self._state, self._state_of, self._state_size = [], None, 0  # (parameter, slot, tensor); the dict that has them
        self._blank = []  # parameters that have no state yet
        self._seen = {}  # versions and sums of moving tensors, since these were read while parameter servers had the values
        self._note_fixed()
        if not self._watch():
            self._open()

    @property
    def is_behind(self):
        return self._is_watched or self._state_is_watched

    @property
    def counts_steps(self):
        return self._counts_steps and bool(self._slots)

    def shares(self, other):
        return not self._ids.isdisjoint(other._ids) or self._optimizer() is other._optimizer()

    def optimizer_is(self, optimizer):
        return self._optimizer() is optimizer

    @property
    def may_be_changed(self):
        """Whether the module or the optimizer may have been changed since the last step."""
        if self._was_open:
            return True
        return bool(self._slots) and (not self._state_is_watched or self._state_is_replaced())

    def step_done(self, step):
        """The session has made a step, the optimizer's one of this number."""
        self._uncounted += 1
        self.changed(step)

    def changed(self, step):
        """The session has new values, after so many steps of the optimizer."""
        self._steps = step
        self._is_ahead = self._state_is_ahead = True
        if not self._is_watched and not self._watch():
            self._open()
        if self._slots and not self._state_is_watched and not self._watch_state():
            self._open_state()

    def catch_up(self, with_state=False):
        """The module has the session's values from now on. with_state: and the optimizer its state."""
        with self.lock:
            if self.is_away:
                self._tell_of_servers()
                return
            if self._is_watched:
                self._open()
            if with_state and self._state_is_watched:
                self._open_state()

    def forget(self):
        """The module and the optimizer keep what they have, and what the session has is lost."""
        self._is_ahead = self._state_is_ahead = False
        self._uncounted = 0
        self._open()
        if self._state_is_watched:
            self._open_state()
            for name in self._blank:
                self._state_of.pop(self._moving[name](), None)

    def take_changes(self, with_state=True):
        """The session takes what was written into the module since. with_state: and the optimizer's state. Whether that was taken."""
        with self.lock:
            if not self._is_watched:
                for name, tensor in alive(self._moving):
                    if not torch.equal(tensor.detach(), self._kept[name]):
                        self._write(name, "", tensor)
                        self._kept[name] = tensor.detach().clone()
                self.take_fixed()
                self._watch()
            if not with_state:
                return False
            self._was_open = not self._is_watched
            if not self._slots or self._state_is_watched and not self._state_is_replaced():
                return False
            self._open_state()
            self._take_state()
            return True

    def take_fixed(self):
        """The session takes what was written into tensors that steps do not change."""
        with torch._C.DisableTorchFunctionSubclass():
            for name, tensor in alive(self._fixed):
                now = noted(tensor)
                if now != self._noted[name]:
                    self._write(name, "", tensor)
                    self._noted[name] = now

    def take_all(self):
        """The session takes all that the module and the optimizer have; the module must have been opened."""
        for name, tensor in (*alive(self._moving), *alive(self._fixed)):
            self._write(name, "", tensor)
        self._keep()
        self._note_fixed()
        self._take_state()

    def end_epoch(self, step):
        """Parameter servers had the values since is_away was set."""
        self.is_away = False
        changed = next((name for name, tensor in alive(self._moving) if name in self._seen and noted(tensor) != self._seen[name]), None)
        self._seen = {}
        if changed is not None:
            raise Refusal(f"'{changed}' of the module was changed while parameter servers had its value; change it between two epochs")
        self.step_done(step)

    def value(self, name):
        """The value of a tensor of the session. If it is divided among processes, all read it, and the module has it, too."""
        if self.session.is_divided(name):
            self.catch_up()
            if name in self._moving:
                return numbers(self._moving[name]())
        return self.session.read_state(name)

    @contextlib.contextmanager
    def left_behind(self):
        """Meanwhile the module is an ordinary one, with the values that it had when it was read last."""
        was_watched = self._is_watched
        release(self._telling() if was_watched else [])
        try:
            yield
        finally:
            let_tell(self._telling() if was_watched else [], self, OF_MODULES)

    def _write(self, name, slot, tensor):
        array = numbers(tensor)
        self.session.write_state(name, slot, array)
        if self._meet is not None:
            self.written[f"{name}.{slot}" if slot else name] = norm_of(array)

    def _watch(self):
        """Lets the module's tensors tell of their use. False if they cannot."""
        if self._at_each_step or not self._can_tell():
            return False
        let_tell(self._telling(), self, OF_MODULES)
        self._is_watched, self._kept = True, {}
        BEHIND.add(self)
        return True

    def _can_tell(self):
        if can_tell([tensor for _, tensor in alive(self._moving)], OF_MODULES):
            return True
        if self._has_collected:
            return False
        self._has_collected = True
        gc.collect()  # cycles that PyTorch's export leaves have views of parameters
        return self._can_tell()

    def _open(self):
        """Gives the module the session's values, and everybody the module."""
        if self._is_ahead and self._is_divided:
            self._meet("reads values of the module")
        moving = alive(self._moving)
        release(self._telling())
        with outside_of_modes():
            if self._is_ahead:
                for name, tensor in moving:
                    tensor.copy_(torch.from_numpy(self.session.read_state(name)).reshape(tensor.shape))
                for i, buffer in alive(self._counters):
                    buffer.add_(self._counts[i] * self._uncounted)
            self._keep()
        self._is_ahead = self._is_watched = False
        self._was_open = True
        self._uncounted = 0
        self._leave()

    def _keep(self):
        self._kept = {name: tensor.detach().clone() for name, tensor in alive(self._moving)}

    def _telling(self):
        """The tensors that tell of their use."""
        return [tensor for _, tensor in (*alive(self._moving), *alive(self._fixed), *alive(self._counters))]

    def _watch_state(self):
        """The same for the optimizer's state, which is made if there is none yet."""
        state, self._state, self._blank = self._state_now(), [], []
        with torch._C.DisableTorchFunctionSubclass():
            for (name, slot), key in self._slots.items():
                tensor = self._moving[name]()
                of_tensor = state[tensor]
                self._blank += [] if of_tensor else [name]
                if self._counts_steps:
                    if not isinstance(of_tensor.get("step"), torch.Tensor):
                        of_tensor["step"] = torch.tensor(0.0)
                    self._state.append((name, None, weakref.ref(of_tensor["step"])))
                if not isinstance(of_tensor.get(key), torch.Tensor):
                    of_tensor[key] = torch.full_like(tensor, torch.nan, memory_format=torch.contiguous_format)
                self._state.append((name, slot, weakref.ref(of_tensor[key])))
        self._state_of, self._state_size = state, len(state)
        tensors = [tensor() for *_, tensor in self._state]
        if self._at_each_step or not can_tell(tensors, OF_OPTIMIZERS):
            return False
        let_tell(tensors, self, OF_OPTIMIZERS)
        self._state_is_watched = True
        BEHIND.add(self)
        return True

    def _open_state(self):
        if self._state_is_ahead and self._state_is_divided:
            self._meet("reads the state of the optimizer")
        found = [(name, slot, tensor()) for name, slot, tensor in self._state if tensor() is not None]
        release([tensor for *_, tensor in found])
        if self._state_is_ahead:
            with outside_of_modes():
                for name, slot, tensor in found:
                    if slot is None:
                        tensor.fill_(float(self._steps))
                    else:
                        tensor.copy_(torch.from_numpy(self.session.read_state(name, slot)).reshape(tensor.shape))
            self._blank = []
        self._state_is_ahead = self._state_is_watched = False
        self._leave()

    def _state_now(self):
        return vars(self._optimizer())["state"]

    def _state_is_replaced(self):
        state = self._state_now()
        return state is not self._state_of or len(state) != self._state_size

    def _take_state(self):
        state = self._state_now()
        with torch._C.DisableTorchFunctionSubclass():
            for (name, slot), key in self._slots.items():
                tensor = self._moving[name]()
                found = state.get(tensor, {}).get(key)
                self._write(name, slot, torch.zeros_like(tensor) if found is None else found)

    def _leave(self):
        if not self.is_behind:
            BEHIND.discard(self)

    def _note_fixed(self):
        self._noted = {name: noted(tensor) for name, tensor in alive(self._fixed)}

    def _tell_of_servers(self):
        release(self._telling())
        self._is_watched, self._seen = False, {name: noted(tensor) for name, tensor in alive(self._moving)}
        BEHIND.discard(self)
        warnings.warn("the module is read in the middle of an epoch, while parameter servers have its values; it has those from the begin "
                      "of the epoch, until its end", stacklevel=5)


def references(tensors):
    return {name: weakref.ref(tensor) for name, tensor in tensors.items()}


def alive(references):
    """(name, tensor) of those that there are."""
    return [(name, tensor()) for name, tensor in references.items() if tensor() is not None]


def write_all(session, tensors):
    """Gives a session all tensors of a module that it knows."""
    for name, slot in session.state_names:
        if not slot and name in tensors:
            session.write_state(name, "", numbers(tensors[name]))


def read_all(session, tensors):
    """Gives these tensors of a module what a session has of them."""
    with outside_of_modes():
        for name, slot in session.state_names:
            if not slot and name in tensors:
                tensors[name].copy_(torch.from_numpy(session.read_state(name)).reshape(tensors[name].shape))


def numbers(tensor):
    """A float32 array of at least one axis."""
    return numpy.atleast_1d(tensor.detach().to("cpu", torch.float32).contiguous().numpy())


def norm_of(array):
    return float(numpy.linalg.norm(array.astype("f8")))


def noted(tensor):
    """What changes with the contents of a tensor, whatever they are: its version, and a sum for what is written through `.data`."""
    data = tensor.detach()
    words = data.reshape(-1).contiguous().view(torch.uint8 if data.element_size() < 4 else torch.int32)
    return tensor._version, int(words.cpu().numpy().sum(dtype=numpy.int64))  # by this thread: PyTorch's sum would wake a team
