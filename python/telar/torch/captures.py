"""How a Step captures its module: at the first batch, and again for what the module or a batch carries then.

A capture is kept, and used again where the module is again what it was. What Telar cannot capture, PyTorch computes, or makes
the updates.
"""

import os
import warnings

import torch

from telar import _native
from telar.loaded import as_input
from telar.refusal import on_gpus
from telar.torch import optimizers
from telar.torch.attributes import untouched
from telar.torch.capture import Capture
from telar.torch.check import compared, require_equal, require_no_memory, require_nothing_attached, require_own_backward_of_none, require_repeatable
from telar.torch.external import External
from telar.torch.fingerprint import HOOKS_OF_PARAMETERS, Fingerprint, hooks_of
from telar.torch.following import BEHIND, Following, catch_up
from telar.torch.own import Own
from telar.torch.recording import Recording
from telar.torch.structure import OfStructure
from telar.torch.values import Refusal

MOST_CAPTURES = 16  # of a module that is frozen by turns, or whose batches have several lengths
OF_A_CAPTURE = ("_captured", "_programs", "_recording", "_external", "_session", "_fingerprint", "_update", "_one_is_checked", "_forms",
                "_trained", "_values")


class Captures:
    """The part of a Step that captures its module."""

    def _names_of_trained(self):
        """The names of the parameters that the optimizer changes, or whose hooks see a gradient."""
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        return {name for name, p in self.model.named_parameters()
                if p.requires_grad and (id(p) in held or any(hooks_of(p, HOOKS_OF_PARAMETERS)))}

    def _updated(self):
        """Those of them of which the loss depends."""
        return self._trained & {name for name, _, is_trained in self._captured.model.parameters if is_trained}

    def _follow(self, batch):
        """Captures the module if it carries something else than at its capture, and takes values that were written by hand."""
        if self._own is not None:
            return
        if self._session is None:
            self._begin(batch)
            return
        if len(BEHIND) > self._values.is_behind:
            self._let_others_catch_up()
        shapes = [self._given, *(tensor.shape for tensor in batch)]
        was_open = self._take_changes(batch)
        if self._shapes != shapes or not self._fingerprint.is_untouched(was_open, is_power_of_two(self._calls)):
            if not self._is_as_captured(batch):
                self._capture_again(batch)
            self._shapes = shapes
        if self._update is None and self._own is None:
            reason = self._changed_options()
            if reason is not None:
                self._let_pytorch_update_after(reason, batch)
        if len(batch[0]) == 1 and not self._one_is_checked and self._external is None and self._own is None:
            self._check_one_sample(batch)

    def _let_others_catch_up(self):
        """The values of other Steps that train or read the same tensors."""
        others = [one for one in BEHIND if one is not self._values and one.shares(self._values)]
        if others:
            catch_up(with_state=any(one.optimizer_is(self.optimizer) for one in others))

    def _take_changes(self, batch):
        """Takes what was written into the module and the optimizer. Returns whether something may have been."""
        if self._update is not None:
            return True
        if is_power_of_two(self._calls):
            self._values.take_fixed()
        if not self._values.may_be_changed:
            return False
        if self._values.take_changes():
            reason = self._reason_for_pytorch()
            if reason is None:
                self._count_steps()
            else:
                self._let_pytorch_update_after(reason, batch)
        return True

    def _count_steps(self):
        """Those that the optimizer's state tells of, if it has one."""
        if self._values.counts_steps:
            self._step = optimizers.steps_of(self.optimizer)

    def _is_as_captured(self, batch):
        """Whether the module and such a batch are what was captured."""
        if self._forms is not None and self._forms_of(batch) != self._forms:
            return False
        if not self._fingerprint.is_same(self._modes_matter()):
            return False
        if not self._fingerprint.numbers_differ():
            return True
        if self._recording is None:
            return False
        try:
            self._require_same_operations()
        except Refusal:
            return False
        self._fingerprint.ignore_numbers()
        return True

    def _capture_again(self, batch):
        """Another capture for what the module carries now; an earlier one, if it was the same."""
        self._values.catch_up(with_state=True)
        before = {name: getattr(self, name) for name in OF_A_CAPTURE}
        self._parked[self._forms, self._fingerprint.key] = before
        now = Fingerprint(self.model, self.optimizer, self._fingerprint.constants)
        parked = self._parked.get((self._forms_of(batch), now.key))
        try:
            if parked is not None:
                self._put(parked)
                self.load()
            elif len(self._parked) < MOST_CAPTURES:
                self._forget_capture()
                self._begin(batch)
                if self._own is not None:
                    with untouched(self.model):
                        self._own.evaluate(self._structured(batch))  # which fails if the batch is wrong
            else:
                self._let_pytorch_compute_after(Refusal(
                    f"the module was captured {MOST_CAPTURES} times, for other modes, parameters, numbers, or extents of the batch than "
                    "axis 0"), batch)
        except Exception as error:
            self._own = None
            self._put(before)
            if isinstance(error, _native.Error) or self._forms_of(batch) == self._forms:
                raise
            raise Refusal(f"a batch of {forms_of(batch)} cannot be computed, and the first had {self._forms[1]}: "
                          f"{error}") from error

    def _forms_of(self, batch):
        return self._given, forms_of(batch)

    def _whole_loss(self):
        """The loss, as a function of the tensors of a batch."""
        return self.loss if self._given is None else OfStructure(self.loss, self._given)

    def _put(self, parts):
        for name, value in parts.items():
            setattr(self, name, value)

    def _forget_capture(self):
        for name in OF_A_CAPTURE:
            setattr(self, name, None)

    def _modes_matter(self):
        return not (self._captured.same_in_evaluation and self._fingerprint.is_of_one_mode)

    def _check_one_sample(self, batch):
        """PyTorch's export takes every number of samples for more than one."""
        try:
            with self._values.left_behind():
                require_equal(self._programs, batch, arrays_of, self._threads)
        except ValueError:
            pass  # a batch norm has a single value in a channel, which the step refuses
        except Refusal as reason:
            self._let_pytorch_compute_after(Refusal(f"the module computes something else for a single sample: {reason}"), batch)
        except _native.Error:  # a batch norm refuses one sample, too, which may be a group's part of more
            if self._group is None:
                raise
        self._one_is_checked = True

    def _let_pytorch_compute_after(self, reason, batch):
        """From now on, although Telar could compute the module before."""
        if self.engine == "telar" or not _native.shares_batches(self.strategy):
            raise reason
        self._values.catch_up(with_state=True)
        self._forget_capture()
        self._let_pytorch_compute(batch, reason)
        if self._own is None:
            self._make_session(batch)

    def _begin(self, batch):
        catch_up(with_state=True)
        self._trained = self._names_of_trained()
        if not self._trained:
            raise Refusal("the optimizer has no parameter of the module that requires a gradient")
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]} - {id(p) for p in self.model.parameters()}
        for name, parameter in self.loss.named_parameters() if isinstance(self.loss, torch.nn.Module) else ():
            if id(parameter) in held:
                raise Refusal(f"the optimizer trains '{name}' of the loss, which is not one of the module; make the loss a part of it")
        self._example = batch
        if self._group is not None:
            self._group.begin(self.model, self.optimizer)
        if self.engine != "torch":
            try:
                self._capture(batch)
            except _native.Error as reason:
                if self.engine == "telar" or not _native.shares_batches(self.strategy):
                    raise
                self._let_pytorch_compute(batch, reason)
        else:
            self._let_pytorch_compute(batch)
        if self._own is None:
            self._make_session(batch)

    def _make_session(self, batch):
        self._take_options()
        self._new_session(len(batch[0]))
        if self._step or self._calls:
            self.load()

    def _take_options(self):
        """Reads what the optimizer is: one that Telar has, or PyTorch's own."""
        reason = self._reason_for_pytorch()
        if reason is None:
            self._groups = optimizers.groups_of(self.optimizer)
            self._option_keys = optimizers.option_keys(self.optimizer)
            self._options_at_first = optimizers.raw_options(self.optimizer, self._option_keys)
            self._rates = optimizers.Rates(self._groups)
            self._step = optimizers.steps_of(self.optimizer) or self._step
        else:
            self._let_pytorch_update(reason)

    def _reason_for_pytorch(self):
        updated = self._updated()
        named = {name: p for name, p in self.model.named_parameters() if name in updated}
        return self._pytorch_updates or optimizers.reason_for_pytorch(self.optimizer, named)

    def _changed_options(self):
        """Why Telar's optimizer cannot make this step, or None."""
        try:
            if optimizers.raw_options(self.optimizer, self._option_keys) != self._options_at_first:
                return ("an option of the optimizer has changed since the Step was made, as the momentum does under OneCycleLR "
                        "without cycle_momentum=False; Telar's optimizer keeps its options, only the learning rate is read")
            self._rates.now(self.optimizer)
        except Refusal as reason:
            return str(reason)
        return None

    def _let_pytorch_update_after(self, reason, batch):
        """From now on, although Telar's optimizer made the updates before."""
        self._values.catch_up(with_state=True)
        self._let_pytorch_update(reason)
        self._new_session(len(batch[0]))

    def _let_pytorch_update(self, reason):
        if self.engine == "telar" or _native.uses_servers(self.strategy):
            raise Refusal(reason)
        if _native.trains_alone(self.strategy, self.options):
            raise Refusal(f"{reason}; and PyTorch has one optimizer, but each replica of {self.strategy} needs its own")
        if self._pytorch_updates is None and self.engine == "auto":
            warnings.warn(f"PyTorch's own optimizer makes the updates, of Telar's gradients: {reason}", stacklevel=5)
        self._pytorch_updates = reason
        self._update = optimizers.PyTorchsUpdate(self.optimizer, self._clip_norm)

    def _let_pytorch_compute(self, batch, reason=None):
        if set(self._devices) != {"cpu"}:
            raise Refusal(f"PyTorch would compute the module, where it is, and not Telar on {', '.join(self._devices)}; leave device out"
                          f"{'' if reason is None else f'. Telar cannot: {reason}'}")
        if reason is not None:
            warnings.warn(f"PyTorch computes the module, because Telar cannot: {reason}", stacklevel=5)
        if self._group is not None:
            raise Refusal("PyTorch would compute the module, and each process of a group sees only its part of a batch"
                          f"{'' if reason is None else f'. Telar cannot: {reason}'}")
        if self._bf16:
            raise Refusal("PyTorch computes the module, so its precision is PyTorch's; use torch.autocast in the module")
        workers, servers = _native.workers(self.strategy, self.options), _native.uses_servers(self.strategy)
        if reason is not None or workers > 1 or servers:
            require_repeatable(self.model, self._whole_loss(), batch)
        if workers > 1 or servers:
            try:
                self._let_workers_compute(batch, max(2, workers))  # each has its own part of the samples
                return
            except Refusal as reason:
                if servers or not _native.shares_batches(self.strategy):
                    raise Refusal(f"{reason}; choose the strategy single") from None
                warnings.warn(f"one worker computes the whole batches, as with the strategy single: {reason}", stacklevel=5)
        self._own = Own(self.model, self.loss, self.optimizer, self._clip_norm, self._threads)

    def _let_workers_compute(self, batch, workers):
        threads = max(1, (self._threads or len(os.sched_getaffinity(0))) // workers)
        coupled = _native.uses_servers(self.strategy) or self.options.get("batch_norm") == "local"
        alone = _native.trains_alone(self.strategy, self.options)
        self._external = External(self.model, self._whole_loss(), batch, self._names_of_trained(), workers, threads, coupled, alone)
        self._captured, self._trained = self._external.captured, self._names_of_trained()
        self._fingerprint = Fingerprint(self.model, self.optimizer)

    def _new_session(self, size):
        """For batches of about this size. The parameters have the values of the capture."""
        held, names, form = self._captured.tensors, self._captured.moving, None
        together = self._group and self._group.native
        if together is not None:
            settings = {"clip_norm": self._clip_norm, "bf16": self._bf16, "seed": self._seed, "strategy": self.strategy,
                        "on GPUs": on_gpus(self._devices), **self.options}
            parts = _native.parts(self.strategy, self.options, together.size)
            size = self._group.capture(self._captured, self.optimizer, settings, size, parts)
        if self._update is not None:
            self._session = _native.Session(self._captured.model, size, "sgd", {}, self.strategy, self.options, 0.0, self._bf16,
                                            self._threads, self._seed, [], self._servers, together, self._devices)
            names = names - self._trained
        else:
            form, trained = optimizers.form_of(self.optimizer), self._updated()
            groups = [([parameter for parameter in trained if id(held[parameter]) in group.members], group.options, multiple)
                      for group, multiple in zip(self._groups, self._rates.multiples)]
            self._session = _native.Session(self._captured.model, size, form.name, self._groups[0].options, self.strategy, self.options,
                                            self._clip_norm, self._bf16, self._threads, self._seed, groups, self._servers, together,
                                            self._devices)
        state = self._session.state_names
        moving, fixed = {}, {}
        for name in (name for name, slot in state if not slot and name in held and (form or name in names)):
            (moving if name in names else fixed)[name] = held[name]
        order = {id(p): i for i, p in enumerate(p for group in self.optimizer.param_groups for p in group["params"])}
        slots = {(name, slot): form.slots[slot] for name, slot in sorted(state, key=lambda one: order.get(id(held.get(one[0])), -1))
                 if slot and name in moving} if form else {}
        buffers = dict(self.model.named_buffers())
        counters = [(buffers[name], count) for name, count in self._captured.calls.items()]
        self._values = Following(self._session, moving, fixed, counters, self.optimizer, slots, form is not None and form.name != "sgd",
                                 self.follow == "every step" or form is None, self._group and self._group.read)

    def _capture(self, batch):
        require_nothing_attached(self.model)
        if isinstance(self.optimizer, torch.optim.SparseAdam):
            raise Refusal("SparseAdam takes sparse gradients, and Telar's are whole")
        loss = self._whole_loss()
        programs = Capture(self.model, loss, batch, self._trained, _native.uses_servers(self.strategy))
        captured = programs.model()
        recording = None
        checked = batch if self._group is None else programs.batch  # a batch norm refuses one sample, which may be a part of more
        checked = compared(programs.training, checked)
        if self._check:
            require_equal(programs, checked, arrays_of, self._threads)
        require_own_backward_of_none(self.model, loss, checked)
        require_no_memory(self.model, loss, checked)
        if self._check:
            recording = Recording(self.model, loss, programs.batch)
        self._captured, self._programs, self._recording = captured, programs, recording
        self._fingerprint = Fingerprint(self.model, self.optimizer, captured.constants)
        self._one_is_checked, self._forms = len(checked[0]) == 1, self._forms_of(batch)


def arrays_of(captured, batch):
    """A batch as arrays by the names of the model's inputs."""
    arrays = {name: as_input(tensor.numpy(force=True), dtype, name)
              for (name, dtype), tensor in zip(captured.inputs, batch) if dtype is not None and tensor is not None}
    for name, (dtype, function) in captured.host.items():
        value = function(batch)
        if value is not None:
            arrays[name] = as_input(value.numpy(force=True), dtype, name)
    return arrays


def forms_of(batch):
    """The types of a batch's tensors, and their extents without that of the samples."""
    return tuple((tensor.dtype, tensor.shape[1:]) for tensor in batch if isinstance(tensor, torch.Tensor))


def is_power_of_two(number):
    return number > 0 and number & (number - 1) == 0
