"""A training step of PyTorch's module on Telar's engine."""

import contextlib
import functools
import math

import numpy
import torch

from telar import _native
from telar.refusal import checked_options, not_finite
from telar.torch import optimizers
from telar.torch.captures import Captures, arrays_of, is_power_of_two
from telar.torch.check import require_unchanged
from telar.torch.external import External
from telar.torch.values import Refusal


class Step(Captures):
    """Makes the steps of a training loop: forward, loss, backward, and the optimizer's step, in parallel.

        step = telar.torch.Step(model, nn.CrossEntropyLoss(), optimizer, strategy="mirrored", replicas=2)
        for batch in loader:
            loss = step(*batch)
        step.sync()

    The module is captured at the first batch, for batches of any size, and its loss and gradients of that batch
    are compared with PyTorch's. What Telar cannot train as it is raises telar.Error with the reason.

    model: the module. It keeps its values until sync().
    loss: a criterion, called with the prediction and the last tensor of the batch, as is a function that takes only two; or
        a function of the module and the batch that returns one number: `lambda model, a, b, y: ...`.
    optimizer: torch.optim's SGD, Adam, AdamW, RMSprop or Adagrad. Its learning rate is read at each step. Any other one, and
        one with hooks, makes the updates itself, of gradients that Telar computes; a warning says so.
    strategy: a name of telar.strategies(); its options follow as keywords, `replicas=2`. The workers of strategies with
        parameter servers make steps of their own, so such a strategy is for telar.torch.fit.
    threads: of all workers together; 0: those that this process may use.
    clip_norm: the greatest norm of the gradient, as torch.nn.utils.clip_grad_norm_ has it.
    precision: "f32", or "bf16" for products and convolutions.
    check: whether the first batch is compared with PyTorch.
    engine: what computes the module. "telar" refuses what it cannot train as it is; "torch" is PyTorch itself, in each worker,
        under strategies whose workers share batches; "auto" takes the first, or the second with a warning that says why.
    """

    def __init__(self, model, /, loss, optimizer, *, strategy="single", threads=0, clip_norm=None, precision="f32",
                 seed=0, check=True, engine="auto", servers=1,
                 **options):
        options = checked_options(strategy, precision, options)
        if engine not in ("auto", "telar", "torch"):
            raise Refusal(f"the engine is '{engine}'; it must be auto, telar or torch")
        self.model, self.loss, self.optimizer, self.engine = model, loss, optimizer, engine
        self.strategy, self.options = strategy, options
        self._threads, self._clip_norm, self._bf16, self._seed = threads, clip_norm or 0.0, precision == "bf16", seed
        self._check, self._servers = check, servers
        self._own = None  # PyTorch itself, where it trains the module alone
        self._forget_capture()
        self._parked = {}  # what belongs to earlier captures, by the fingerprint's key
        self._pytorch_updates = None  # why
        self._groups = self._rates = self._option_keys = self._options_at_first = None
        self._calls = 0
        self._step = 0
        self._samples = self._evaluated = 0
        self._shapes = None  # of the last batch
        self._unwritten = 0  # steps whose values are not in the module
        self._last = None  # the last batch, with which sync() compares

    def __call__(self, *batch):
        """Makes one step. Returns the loss of the batch, before the step."""
        if _native.uses_servers(self.strategy):
            raise Refusal(f"the workers of the strategy {self.strategy} make steps of their own, not those of a loop; use telar.torch.fit, "
                          "or `telar train` with the model's file")
        self._follow(batch)
        self._require_known_modes()
        size, step = len(batch[0]), self._step + 1
        if self._own is not None:
            loss = self._own.step(batch, step)
        else:
            loss = self._trained_on(batch, step)
        self._step = step
        self._calls += 1
        self._samples += size
        self._last = batch
        self.optimizer._opt_called = True  # schedulers warn otherwise
        return loss

    def _trained_on(self, batch, step):
        """Makes a step by the session. Returns the loss of the batch, before the step."""
        if is_power_of_two(self._calls):
            self._require_same_operations()
        rate = self._rates.now(self.optimizer) if self._update is None else 0.0
        size = len(batch[0])
        samples = numpy.arange(self._samples, self._samples + size)
        if self._update is not None:
            self._write_session()
        sums, finite = self._computed(batch, lambda arrays: self._session.train(
            arrays, samples, rate, step, 0, 0 if self._captured.mean else 1))
        divisor = size if self._captured.mean else 1
        loss = sums[0] / divisor
        if not finite:
            if math.isfinite(loss):
                self.load()
            raise not_finite(step, loss, "those of the module")
        self._unwritten += 1
        if self._update is not None:
            self._write_module()  # the statistics
            self._update.make(self._gradients(divisor))
            self._fingerprint.note_versions()
        return loss

    # For telar.torch.fit:

    @property
    def has_begun(self):
        return self._session is not None or self._own is not None

    def begin(self, batch):
        """Captures the module, from this batch, before its first step."""
        self._begin(batch)

    def counts(self):
        """How many steps the optimizer has made, the samples of this object's, and the counters of batch norms by their names."""
        counted = {} if self._captured is None else self._captured.calls
        return self._step, self._samples, {name: int(buffer) + counted.get(name, 0) * self._unwritten
                                           for name, buffer in self.model.named_buffers() if name.endswith("num_batches_tracked")}

    def restore(self, load, step, samples, counters):
        """Continues from a state that load(session) loads, with these counts."""
        self._step, self._samples = step, samples
        self.take(load)
        for name, buffer in self.model.named_buffers():
            if name in counters:
                buffer.fill_(counters[name])
        if self._fingerprint is not None:
            self._fingerprint.note_values()

    def take(self, load):
        """Takes the state that load(session) loads, as the module has it then, too."""
        with self._whole_state():
            load(self._session)
            if self._fingerprint is not None:
                self._write_module()
                self._fingerprint.note_values()

    def change(self, function):
        """Calls function(session), which has the whole state."""
        with self._whole_state():
            function(self._session)

    @contextlib.contextmanager
    def _whole_state(self):
        """Meanwhile a session has the whole state. Afterwards PyTorch has what is in it, if PyTorch trains the module itself."""
        if self._own is None and self._update is None:
            yield
            return
        if self._pytorch_updates or optimizers.reason_for_pytorch(self.optimizer, {}):
            raise Refusal("a checkpoint has the state of Telar's optimizers, and PyTorch's own makes the updates: "
                          f"{self._pytorch_updates or optimizers.reason_for_pytorch(self.optimizer, {})}")
        own, self._own = self._own, None
        self._trained = self._names_of_trained()
        self._external = External(self.model, self.loss, self._example, self._trained, 1, self._threads)
        self._captured = self._external.captured
        self._take_options()
        self._session = self._new_session(len(self._example[0]))
        self._write_session()
        try:
            yield
            self._write_module()
        finally:
            self._forget_capture()
            self._own = own

    def learning_rate(self):
        """That of the group with the greatest one at the start; of the first, if PyTorch's own optimizer updates."""
        if self._own is None and self._update is None:
            return self._rates.now(self.optimizer)
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def loss_is_mean(self):
        """Whether the loss of a batch is a mean, not a sum; of a function of one's own that PyTorch computes, a mean is assumed."""
        return getattr(self.loss, "reduction", "mean") != "sum" if self._own is not None else self._captured.mean

    def epoch(self, batches, steps, number=0, done=None):
        """The workers of a strategy with servers make the steps of an epoch.

        batches: an iterator of at least `steps` batches, read by the workers, one after another. number: of the epoch, from
        0. done(samples, loss): called after each step, with the mean loss or the sum, as the loss is.
        """
        self._require_known_modes()
        self._unwritten += 1
        if not self._captured.mean:
            raise Refusal(f"the loss is a sum over the samples; for the strategy {self.strategy} it must be their mean")
        arrays = self._external.arrays if self._external else functools.partial(arrays_of, self._captured)
        if self._external:
            self._external.clear()

        def following():
            batch = next(batches, None)
            if batch is None:
                raise Refusal(f"the loader has ended before its {steps} batches")
            self._last = batch
            return arrays(batch)

        def completed(step, samples, sums):
            if self._external:
                self._external.forget(step)
            self._samples += samples
            if done is not None:
                done(samples, sums[0] / samples)

        self._session.updates = self._step
        try:
            self._session.epoch(steps, following, self._rates.now(self.optimizer), number, completed)
        finally:
            self._step = self._session.updates

    def evaluate(self, *batch):
        """The loss of a batch in evaluation mode, by the current values."""
        self._require_begun()
        if self._own is not None:
            return self._own.evaluate(batch)
        if self._captured.no_evaluation:
            raise Refusal(f"the loss cannot be computed in evaluation mode: {self._captured.no_evaluation}")
        ids = self._ids_of_noise(batch)
        loss = self._computed(batch, lambda arrays: self._session.evaluate(arrays, **ids))[0]
        return loss / len(batch[0]) if self._captured.mean else loss

    def predict(self, *inputs):
        """The module's output in evaluation mode, by the current values."""
        self._require_begun()
        if self._own is not None:
            return self._own.predict(inputs)
        if self._external:
            self._external.require_prediction()
        if self._captured.no_prediction:
            raise Refusal(f"the module's output cannot be computed: {self._captured.no_prediction}")
        return torch.from_numpy(self._session.predict(self._arrays(inputs), **self._ids_of_noise(inputs)))

    def outputs(self, *batch):
        """The module's output in the step of this batch, before the step: for the accuracy on training samples.

        For a module that computes the same in training and in evaluation, and whose output is one tensor.
        """
        self._follow(batch)
        if self._own is not None:
            raise Refusal("PyTorch computes the module, and a Step gives no outputs then; compute this in an evaluation")
        if not self._captured.output_is_tensor:
            raise Refusal("the module's output is not one tensor, and a Step gives no other; compute this in an evaluation")
        if not self._captured.same_in_evaluation:
            raise Refusal("the module computes something else in training than in evaluation, as dropout and batch norm do, and a "
                          "Step gives no outputs of training; compute this in an evaluation")
        return self.predict(*batch).to(batch[0].device)

    def sync(self):
        """Writes parameters, running statistics and the optimizer's state into the module and the optimizer."""
        if self._session is None:
            return
        self._take_written_values(thorough=True)
        if self._unwritten:
            self._write_module()
        self._fingerprint.note_values()
        if self._recording is None or self._last is None or not self._is_as_captured(self._last):
            return  # in the last case, the next step captures the module again
        self._require_same_operations()
        if not self._captured.no_evaluation:
            require_unchanged(self._captured, self.model, self.loss, self._last, self.evaluate(*self._last), self._bf16)
            self._fingerprint.note_values()

    def _require_same_operations(self):
        if self._recording is not None:
            self._recording.require_same()
            self._fingerprint.note_values()
            self._fingerprint.settle()

    def load(self):
        """Takes the values of the module and of the optimizer, if they were changed since the last sync().

        Before the first step there is nothing to do: it begins with these values.
        """
        if self._session is None:
            return
        if self._update is None:
            self._step = optimizers.steps_of(self.optimizer) or self._step
        self._write_session()
        self._fingerprint.note_values()

    def _write_module(self):
        """Writes what the session has into the module and the optimizer."""
        slots, updated = {}, self._updated() if self._update is None else set()
        with torch.no_grad():
            for parameter, slot in self._session.state_names:
                tensor = self._captured.tensors.get(parameter)
                if tensor is None or (self._update is not None and parameter in self._trained):
                    continue
                values = self._session.read_state(parameter, slot)
                if slot:
                    slots.setdefault(parameter, {})[slot] = values
                else:
                    tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))
            for parameter in updated:
                optimizers.set_state(self.optimizer, self._captured.tensors[parameter], slots.get(parameter, {}),
                                     self._step)
            buffers = dict(self.model.named_buffers())
            for name, count in self._captured.calls.items():
                buffers[name].add_(count * self._unwritten)
        self._unwritten = 0

    def _write_session(self):
        """Writes what the module and the optimizer have into the session."""
        slots = {} if self._update is not None else optimizers.form_of(self.optimizer).slots
        for parameter, slot in self._session.state_names:
            tensor = self._captured.tensors.get(parameter)
            if tensor is None:
                continue
            if slot:
                state = self.optimizer.state.get(tensor, {}).get(slots[slot])
                tensor = torch.zeros_like(tensor) if state is None else state
            self._session.write_state(parameter, slot, numbers(tensor))
        self._unwritten = 0

    def _gradients(self, divisor):
        """The pairs (parameter, its gradient of the last batch), the last parameter first. divisor: of the session's sums."""
        held, updated = self._captured.tensors, self._updated()
        for name in reversed([name for name, _ in self.model.named_parameters() if name in updated]):
            gradient = torch.from_numpy(self._session.read_gradient(name)).div_(divisor)
            yield held[name], gradient.reshape(held[name].shape).to(held[name].device)

    def values(self):
        """The current values of the parameters by their names, as arrays; the module keeps its own until sync()."""
        self._require_begun()
        if self._own is not None or self._update is not None:
            trained = self._names_of_trained()
            return {name: numbers(p).reshape(p.shape).copy() for name, p in self.model.named_parameters() if name in trained}
        held = {name for name, slot in self._session.state_names if not slot}  # without those that no operation uses
        return {name: self._session.read_state(name) for name in sorted(self._trained & held)}

    def save(self, path):
        """Writes the model with its current values to a file: `telar train`, `telar.load`."""
        self._require_begun()
        if self._external or self._own:
            raise Refusal("PyTorch computes the module, so a file of Telar's operations cannot be written; save it with torch.save")
        if self._captured.host:
            raise Refusal("PyTorch computes a part of the module's inputs of each batch, such as masks or weights of labels, so a "
                          "file of it would not be enough; compute them before, and give them as tensors of the batch")
        reason = self._captured.no_evaluation or self._captured.no_prediction
        if reason:
            raise Refusal(f"a file has the loss and the module's output in evaluation mode, and there is none: {reason}")
        values = {name: self._session.read_state(name) for name, _, _ in self._captured.model.parameters}
        self._captured.model.write(str(path), values)

    def _ids_of_noise(self, batch):
        """Other ids than in all evaluations before, by which evaluation draws its numbers, if it draws any."""
        if not self._captured.draws or self._external:
            return {}
        self._evaluated += len(batch[0])
        return {"samples": numpy.arange(self._evaluated - len(batch[0]), self._evaluated)}

    def _computed(self, batch, compute):
        """What compute(arrays) gives for a batch, of which the first may have labels that the loss ignores."""
        try:
            return compute(self._arrays(batch))
        except _native.Error:
            if not any(has_some(batch) for has_some in self._captured.ignored):
                raise
        before = self._session
        self._programs.takes_ignored = True
        self._captured = self._programs.model()
        self._session = self._new_session(len(batch[0]))
        for parameter, slot in before.state_names:
            if (parameter, slot) in self._session.state_names:
                self._session.write_state(parameter, slot, before.read_state(parameter, slot))
        return compute(self._arrays(batch))

    def _arrays(self, batch):
        if not self._external:
            return arrays_of(self._captured, batch)
        self._external.clear()
        return self._external.arrays(batch)

    def _require_known_modes(self):
        if not self.model.training and (self._own is not None or self._modes_matter()):
            raise Refusal(f"{type(self.model).__name__} is in evaluation mode, in which its dropout and batch norm do nothing or "
                          "something else; a step trains: call train() of the module before it")

    def _require_begun(self):
        if not self.has_begun:
            raise Refusal("no step has been made; the module is captured at the first one")
        if self._update is not None:
            self._write_session()


def numbers(tensor):
    """A float32 array of at least one axis."""
    return numpy.atleast_1d(tensor.detach().to("cpu", torch.float32).contiguous().numpy())
