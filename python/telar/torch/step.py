"""A training step of PyTorch's module on Telar's engine."""

import functools
import math
import os
import warnings

import numpy
import torch

from telar import _native
from telar.loaded import as_input
from telar.refusal import checked_options, not_finite
from telar.torch import optimizers
from telar.torch.capture import Capture
from telar.torch.check import require_equal, require_unchanged
from telar.torch.external import External
from telar.torch.recording import Recording
from telar.torch.values import Refusal


class Step:
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
    optimizer: torch.optim's SGD, Adam, AdamW, RMSprop or Adagrad. Its learning rate is read at each step.
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
        self._groups = optimizers.groups_of(optimizer)
        self._options_at_first = optimizers.options_of(optimizer)
        self._rates = optimizers.Rates(self._groups)
        self._programs = self._captured = self._session = self._external = self._recording = None
        self._calls = 0
        self._step = optimizers.steps_of(optimizer)
        self._samples = 0
        self._last = None  # the last batch, with which sync() compares

    def __call__(self, *batch):
        """Makes one step. Returns the loss of the batch, before the step."""
        if _native.uses_servers(self.strategy):
            raise Refusal(f"the workers of the strategy {self.strategy} make steps of their own, not those of a loop; use telar.torch.fit, "
                          "or `telar train` with the model's file")
        if self._session is None:
            self._begin(batch)
        self._require_known_modes()
        if optimizers.options_of(self.optimizer) != self._options_at_first:
            raise Refusal("an option of the optimizer has changed since the Step was made, as the momentum does under OneCycleLR "
                          "without cycle_momentum=False; Telar's optimizer keeps its options, only the learning rate is read")
        rate = self._rates.now(self.optimizer)
        if self._calls == 1 and self._recording is not None:
            self._recording.require_same()
        size = len(batch[0])
        samples = numpy.arange(self._samples, self._samples + size)
        step = self._step + 1
        sums, finite = self._computed(batch, lambda arrays: self._session.train(
            arrays, samples, rate, step, 0, 0 if self._captured.mean else 1))
        loss = sums[0] / size if self._captured.mean else sums[0]
        if not finite:
            if math.isfinite(loss):
                self.load()
            raise not_finite(step, loss, "those of the module")
        self._step = step
        self._calls += 1
        self._samples += size
        self._last = batch
        self.optimizer._opt_called = True  # schedulers warn otherwise
        return loss

    # For telar.torch.fit:

    @property
    def has_begun(self):
        return self._session is not None

    def begin(self, batch):
        """Captures the module, from this batch, before its first step."""
        self._begin(batch)

    def counts(self):
        """How many steps the optimizer has made, and the samples of this object's."""
        return self._step, self._samples

    def restore(self, load, step, samples):
        """Continues from a state that load(session) loads, with these counts."""
        load(self._session)
        self._step, self._samples = step, samples
        self.sync()

    def change(self, function):
        """Calls function(session)."""
        function(self._session)

    def learning_rate(self):
        return self._rates.now(self.optimizer)

    def epoch(self, batches, steps, number=0, done=None):
        """The workers of a strategy with servers make the steps of an epoch.

        batches: an iterator of at least `steps` batches, read by the workers, one after another. number: of the epoch, from
        0. done(samples, loss): called after each step, with the mean loss or the sum, as the loss is.
        """
        self._require_known_modes()
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
        if self._captured.no_evaluation:
            raise Refusal(f"the loss cannot be computed in evaluation mode: {self._captured.no_evaluation}")
        loss = self._computed(batch, lambda arrays: self._session.evaluate(arrays))[0]
        return loss / len(batch[0]) if self._captured.mean else loss

    def predict(self, *inputs):
        """The module's output in evaluation mode, by the current values."""
        self._require_begun()
        if self._external:
            self._external.require_prediction()
        if self._captured.no_prediction:
            raise Refusal(f"the module's output cannot be computed: {self._captured.no_prediction}")
        return torch.from_numpy(self._session.predict(self._arrays(inputs)))

    def outputs(self, *batch):
        """The module's output in the step of this batch, before the step: for the accuracy on training samples.

        For a module that computes the same in training and in evaluation, and whose output is one tensor.
        """
        if self._session is None:
            self._begin(batch)
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
        slots = {}
        with torch.no_grad():
            for parameter, slot in self._session.state_names:
                tensor = self._captured.tensors.get(parameter)
                if tensor is None:
                    continue
                values = self._session.read_state(parameter, slot)
                if slot:
                    slots.setdefault(parameter, {})[slot] = values
                else:
                    tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))
            for parameter in self._updated():
                optimizers.set_state(self.optimizer, self._captured.tensors[parameter], slots.get(parameter, {}),
                                     self._step)
            for name, layer in self.model.named_modules():
                counter = getattr(layer, "num_batches_tracked", None)
                if isinstance(counter, torch.Tensor):
                    counter.fill_(self._step * self._captured.calls.get(f"{name}.running_mean".removeprefix("."), 1))

        if self._recording is not None and self._last is not None:
            self._recording.require_same()
            if self._captured.no_evaluation:
                return
            require_unchanged(self._captured, self.model, self.loss, self._last, self.evaluate(*self._last), self._bf16)

    def load(self):
        """Takes the values of the module and of the optimizer, if they were changed since the last sync().

        Before the first step there is nothing to do: it begins with these values.
        """
        if self._session is None:
            return
        self._step = optimizers.steps_of(self.optimizer)
        slots = optimizers.form_of(self.optimizer).slots
        for parameter, slot in self._session.state_names:
            tensor = self._captured.tensors.get(parameter)
            if tensor is None:
                continue
            if slot:
                state = self.optimizer.state.get(tensor, {}).get(slots[slot])
                tensor = torch.zeros_like(tensor) if state is None else state
            self._session.write_state(parameter, slot, numbers(tensor))

    def values(self):
        """The current values of the parameters by their names, as arrays; the module keeps its own until sync()."""
        self._require_begun()
        held = {name for name, slot in self._session.state_names if not slot}  # without those that no operation uses
        return {name: self._session.read_state(name) for name in sorted(self._trained() & held)}

    def save(self, path):
        """Writes the model with its current values to a file: `telar train`, `telar.load`."""
        self._require_begun()
        if self._external:
            raise Refusal("PyTorch computes the module, so a file of Telar's operations cannot be written; save it with torch.save")
        if self._captured.host:
            raise Refusal("PyTorch computes a part of the module's inputs of each batch, such as masks or weights of labels, so a "
                          "file of it would not be enough; compute them before, and give them as tensors of the batch")
        reason = self._captured.no_evaluation or self._captured.no_prediction
        if reason:
            raise Refusal(f"a file has the loss and the module's output in evaluation mode, and there is none: {reason}")
        values = {name: self._session.read_state(name) for name, _, _ in self._captured.model.parameters}
        self._captured.model.write(str(path), values)

    def _trained(self):
        """The names of the parameters that the optimizer changes."""
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        return {name for name, p in self.model.named_parameters() if p.requires_grad and id(p) in held}

    def _updated(self):
        """Those of them of which the loss depends."""
        return self._trained() & {name for name, _, is_trained in self._captured.model.parameters if is_trained}

    def _begin(self, batch):
        trained = self._trained()
        if not trained:
            raise Refusal("the optimizer has no parameter of the module that requires a gradient")
        if self.engine != "torch":
            try:
                self._capture(batch, trained)
            except Refusal as reason:
                if self.engine == "telar" or not _native.shares_batches(self.strategy):
                    raise
                warnings.warn(f"PyTorch computes the module, because Telar cannot: {reason}", stacklevel=3)
        if self._captured is None:
            if self._bf16:
                raise Refusal("PyTorch computes the module, so its precision is PyTorch's; use torch.autocast in the module")
            workers = _native.workers(self.strategy, self.options)
            if _native.uses_servers(self.strategy):
                workers = max(2, workers)  # each has its own part of the samples
            threads = max(1, (self._threads or len(os.sched_getaffinity(0))) // workers) if workers > 1 else self._threads
            self._external = External(self.model, self.loss, batch, trained, workers, threads)
            self._captured = self._external.captured
        self._session = self._new_session(len(batch[0]))
        if self._step:
            self.load()

    def _new_session(self, size):
        """For batches of about this size. The parameters have the values of the capture."""
        name = optimizers.form_of(self.optimizer).name
        held, trained = self._captured.tensors, self._updated()
        groups = [([parameter for parameter in trained if id(held[parameter]) in group.members], group.options, multiple)
                  for group, multiple in zip(self._groups, self._rates.multiples)]
        return _native.Session(self._captured.model, size, name, self._groups[0].options, self.strategy, self.options,
                               self._clip_norm, self._bf16, self._threads, self._seed, groups, self._servers)

    def _capture(self, batch, trained):
        programs = Capture(self.model, self.loss, batch, trained, _native.uses_servers(self.strategy))
        captured = programs.model()
        recording = None
        if self._check:
            require_equal(programs, batch, arrays_of, self._threads)
            recording = Recording(self.model, self.loss, programs.batch)
        self._captured, self._programs, self._recording = captured, programs, recording

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
        if not self._captured.same_in_evaluation and not self.model.training:
            raise Refusal(f"{type(self.model).__name__} is in evaluation mode, in which its dropout and batch norm do nothing or "
                          "something else; a step trains: call train() of the module before it")

    def _require_begun(self):
        if self._session is None:
            raise Refusal("no step has been made; the module is captured at the first one")


def arrays_of(captured, batch):
    """A batch as arrays by the names of the model's inputs."""
    arrays = {name: as_input(tensor.numpy(force=True), dtype, name)
              for (name, dtype), tensor in zip(captured.inputs, batch) if dtype is not None}
    for name, (dtype, function) in captured.host.items():
        value = function(batch)
        if value is not None:
            arrays[name] = as_input(value.numpy(force=True), dtype, name)
    return arrays


def numbers(tensor):
    """A float32 array of at least one axis."""
    return numpy.atleast_1d(tensor.detach().to("cpu", torch.float32).contiguous().numpy())
