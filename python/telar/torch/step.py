"""A training step of PyTorch's module on Telar's engine."""

import functools
import math
import warnings

import numpy
import torch

from telar import _native
from telar.refusal import checked_options, devices_of, not_finite
from telar.torch import optimizers
from telar.torch.captures import Captures, arrays_of, is_power_of_two
from telar.torch.checkpointed import Checkpointed
from telar.torch.check import require_unchanged
from telar.torch.following import numbers, write_all
from telar.torch.structure import flattened, placed, with_tensors
from telar.torch.together import Together
from telar.torch.values import Refusal, samples_of


class Step(Captures, Checkpointed):
    """Makes the steps of a training loop: forward, loss, backward, and the optimizer's step, in parallel.

        step = telar.torch.Step(model, nn.CrossEntropyLoss(), optimizer, strategy="mirrored", replicas=2)
        for batch in loader:
            loss = step(*batch)
        step.sync()

    The module is captured at the first batch, for batches of any size, and its loss and gradients of that batch
    are compared with PyTorch's. What Telar cannot train as it is raises telar.Error with the reason.

    model: the module. It has the values of the last step whenever they are read.
    loss: a criterion, called with the prediction and the last tensor of the batch, as is a function that takes only two; or
        a function of the module and the batch that returns one number: `lambda model, a, b, y: ...`.
        A batch may be of dicts, lists, dataclasses and NumPy arrays, too.
    optimizer: torch.optim's SGD, Adam, AdamW, RMSprop or Adagrad. Its learning rate is read at each step. Any other one, and
        one with hooks, makes the updates itself, of gradients that Telar computes; a warning says so.
    strategy: a name of telar.strategies(); its options follow as keywords, `replicas=2`. The workers of strategies with
        parameter servers make steps of their own, so such a strategy is for telar.torch.fit.
    threads: of all workers on CPUs together; 0: those that this process may use.
    device: "cpu", "cuda" or "cuda:1", where the engine computes, as in a job, or a list with one name for each worker; wherever the
        module is. Module and batches pass through the host's memory. On a GPU PyTorch is no engine.
    clip_norm: the greatest norm of the gradient, as torch.nn.utils.clip_grad_norm_ has it.
    precision: "f32", or "bf16" for products and convolutions.
    check: whether the first batch is compared with PyTorch.
    follow: when the module and the optimizer get their new values: "reads", before PyTorch uses one of their tensors; "every step",
        for what reads their memory past PyTorch.
    engine: what computes the module. "telar" refuses what it cannot train as it is; "torch" is PyTorch itself, in each worker,
        under strategies whose workers share batches; "auto" takes the first, or the second with a warning that says why.
    group: of telar.join(): processes that train together, by any strategy without parameter servers. Each gives its own part of a
        batch, as with DistributedDataParallel, and a loss is that of all parts; but parts of any sizes are one batch, and the stages of
        a pipeline each give the whole batch. All begin with the values of rank 0's module, and make the same calls; where the strategy
        divides values, they read the module and the optimizer together, too, and each has all values after sync().
    """

    def __init__(self, model, /, loss, optimizer, *, strategy="single", threads=0, device="cpu", clip_norm=None, precision="f32",
                 seed=0, check=True, engine="auto", servers=1, follow="reads", group=None, **options):
        options = checked_options(strategy, precision, options)
        if engine not in ("auto", "telar", "torch"):
            raise Refusal(f"the engine is '{engine}'; it must be auto, telar or torch")
        if follow not in ("reads", "every step"):
            raise Refusal(f"follow is '{follow}'; it must be 'reads' or 'every step'")
        self.model, self.loss, self.optimizer, self.engine, self.follow = model, loss, optimizer, engine, follow
        self.strategy, self.options, self._devices = strategy, options, devices_of(device)
        self._threads, self._clip_norm, self._bf16, self._seed = threads, clip_norm or 0.0, precision == "bf16", seed
        self._check, self._servers = check, servers
        self._group = None if group is None else Together(group)
        self._own = None  # PyTorch itself, where it trains the module alone
        self._forget_capture()
        self._parked = {}  # what belongs to earlier captures, by the fingerprint's key
        self._pytorch_updates = None  # why
        self._groups = self._rates = self._option_keys = self._options_at_first = None
        self._calls = 0
        self._goes_on = False  # whether the last call has left its gradients to the next one, or to the loop
        self._has_told = False  # of gradients without an effect
        self._step = 0
        self._samples = self._drawn = 0
        self._given = None  # the structure of the last batch, if it is more than tensors
        self._shapes = None  # of the last batch
        self._last = None  # the last batch, with which sync() compares

    def __call__(self, *batch, update=True):
        """Makes one step. Returns the loss of the batch, before the step.

        It begins with zero_grad() of the optimizer, and leaves no gradients.
        update: False only adds the gradients of the batch to those of the parameters, as backward() does. The next call with an
        update has their sum; or the loop itself limits them, and calls step() and zero_grad() of the optimizer.
        """
        if _native.uses_servers(self.strategy):
            raise Refusal(f"the workers of the strategy {self.strategy} make steps of their own, not those of a loop; use telar.torch.fit, "
                          "or `telar train` with the model's file")
        batch, self._given = flattened(batch)
        self._follow(batch)
        if not update and self._own is None and self._update is None:
            self._let_pytorch_update_after("the loop has a part in it (update=False)", batch)
        self._require_known_modes()
        size, step = len(batch[0]), self._step + 1
        optimizers.note_update(self.optimizer, False)
        begins = update and not self._goes_on
        if begins and self._calls:
            self._tell_of_gradients()
        if self._own is not None:
            loss = self._own.step(self._structured(batch), step, begins, update)
        else:
            loss = self._trained_on(batch, step, begins, update)
        self._step, self._goes_on = step, not update
        optimizers.note_update(self.optimizer, update)
        self._calls += 1
        self._samples += size if self._group is None else self._group.whole
        self._last = batch
        self.optimizer._opt_called = True  # schedulers warn otherwise
        return loss

    def _tell_of_gradients(self):
        """Warns, once, of gradients that a step will not use: none was left by one."""
        if not self._has_told and optimizers.has_gradients(self.optimizer):
            self._has_told = True
            warnings.warn("there are gradients that backward() of the loop has made, and a step begins with zero_grad(), so they have no "
                          "effect; add to them by step(..., update=False), and call step() of the optimizer", stacklevel=3)

    def _trained_on(self, batch, step, begins, update):
        """Makes a step by the session. Returns the loss of the batch, before the step."""
        if is_power_of_two(self._calls):
            self._require_same_operations()
        if self._external is not None:
            self._external.require_same_kind(batch)
        rate = self._rates.now(self.optimizer) if self._update is None else 0.0
        size = whole = len(batch[0])
        first = self._samples
        if self._group is not None:
            if is_power_of_two(self._calls):
                self._require_same_values()
            before, whole = self._group.step(step, self.optimizer, update, batch, self._values)
            first += before
        samples = numpy.arange(first, first + size)
        with self._values.lock:
            if self._update is not None:
                self._take_module()
            sums, finite = self._computed(batch, lambda arrays: self._session.train(
                arrays, samples, rate, step, 0, whole if self._captured.mean else 1, whole))
            divisor = whole if self._captured.mean else 1
            loss = sums[0] / divisor
            if not finite:
                if math.isfinite(loss):
                    self._values.forget()
                    self._take_module()
                raise not_finite(step, loss, "those of the module")
            self._values.step_done(step)
        if self._update is not None:
            self._update.make(self._gradients(divisor), begins, update)
        return loss

    # For telar.torch.fit:

    @property
    def has_begun(self):
        return self._session is not None or self._own is not None

    def begin(self, batch):
        """Captures the module, from this batch, before its first step."""
        batch, self._given = flattened(batch)
        self._begin(batch)

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
        if not self._captured.mean:
            raise Refusal(f"the loss is a sum over the samples; for the strategy {self.strategy} it must be their mean")
        arrays = self._external.arrays if self._external else functools.partial(arrays_of, self._captured)
        if self._external:
            self._external.clear()

        def following():
            batch = next(batches, None)
            if batch is None:
                raise Refusal(f"the loader has ended before its {steps} batches")
            batch, structure = flattened(batch)
            if structure != self._given:
                raise Refusal("a batch has another structure than the first one")
            self._last = batch
            if self._external:
                self._external.require_same_kind(batch)
            return arrays(batch)

        def completed(step, samples, sums):
            if self._external:
                self._external.forget(step)
            self._samples += samples
            if done is not None:
                done(samples, sums[0] / samples)

        self._take_changes(self._example)
        self._session.updates = self._step
        self._values.is_away = True
        try:
            self._session.epoch(steps, following, self._rates.now(self.optimizer), number, completed)
        finally:
            self._step = self._session.updates
            self._values.end_epoch(self._step)

    def evaluate(self, *batch):
        """The loss of a batch in evaluation mode, by the current values."""
        self._require_begun()
        if self._own is not None:
            return self._own.evaluate(with_tensors(batch))
        batch, structure = flattened(batch)
        if structure != self._given:
            raise Refusal("the batch has another structure than those of the steps")
        return self._evaluated(batch)

    def _evaluated(self, batch):
        """The same of the tensors of a batch."""
        if self._captured.no_evaluation:
            raise Refusal(f"the loss cannot be computed in evaluation mode: {self._captured.no_evaluation}")
        ids = self._ids_of_noise(batch)
        whole = len(batch[0]) if self._group is None else self._group.parts("evaluates a batch", batch, self._values)[1]
        loss = self._computed(batch, lambda arrays: self._session.evaluate(arrays, **ids, all=whole))[0]
        return loss / whole if self._captured.mean else loss

    def predict(self, *inputs):
        """The module's output in evaluation mode, by the current values."""
        self._require_begun()
        if (self._own or self._external) and flattened(inputs)[1] is not None:
            raise Refusal("PyTorch computes the module, and a Step does not know how the loss gives it what is no tensor; call the module")
        if self._own is not None:
            return self._own.predict(flattened(inputs)[0])
        if self._external:
            self._external.require_prediction()
        if self._captured.no_prediction:
            raise Refusal(f"the module's output cannot be computed: {self._captured.no_prediction}")
        inputs = placed(inputs, self._given)
        whole = samples_of(inputs) if self._group is None else self._group.parts("predicts", inputs, self._values)[1]
        return torch.from_numpy(self._session.predict(self._arrays(inputs), **self._ids_of_noise(inputs), all=whole))

    def outputs(self, *batch):
        """The module's output in the step of this batch, before the step: for the accuracy on training samples.

        For a module that computes the same in training and in evaluation, and whose output is one tensor.
        """
        tensors, self._given = flattened(batch)
        self._follow(tensors)
        if self._own is not None:
            raise Refusal("PyTorch computes the module, and a Step gives no outputs then; compute this in an evaluation")
        if not self._captured.output_is_tensor:
            raise Refusal("the module's output is not one tensor, and a Step gives no other; compute this in an evaluation")
        if not self._captured.same_in_evaluation:
            raise Refusal("the module computes something else in training than in evaluation, as dropout and batch norm do, and a "
                          "Step gives no outputs of training; compute this in an evaluation")
        return self.predict(*batch).to(tensors[0].device)

    def sync(self):
        """Writes parameters, running statistics and the optimizer's state into the module and the optimizer, and checks the capture.

        The values are there without it, too, whenever PyTorch reads them; but not for what reads memory otherwise.
        """
        if self._session is None:
            return
        if self._update is None:
            self._values.take_changes(with_state=False)
        self._values.catch_up(with_state=True)
        self._require_begun()
        if self._recording is None or self._last is None or not self._is_as_captured(self._last):
            return  # in the last case, the next step captures the module again
        self._require_same_operations()
        if self._group is not None:
            self._require_same_values()
        elif not self._captured.no_evaluation:
            require_unchanged(self._captured, self.model, self._whole_loss(), self._last, self._evaluated(self._last), self._bf16)

    def _require_same_values(self):
        self._group.require_same_values(self._session, {} if self._update is None else self._captured.tensors)

    def _require_same_operations(self):
        if self._recording is not None:
            self._values.catch_up()
            self._recording.require_same()
            self._fingerprint.settle()

    def load(self):
        """Takes the values of the module and of the optimizer, as a step does by itself where PyTorch has written them.

        Before the first step there is nothing to do: it begins with these values.
        """
        if self._session is None:
            return
        self._values.catch_up(with_state=True)
        self._take_module()
        self._count_steps()

    def _take_module(self):
        if self._update is None:
            self._values.take_all()
        else:
            write_all(self._session, self._captured.tensors)

    def _gradients(self, divisor):
        """The pairs (parameter, its gradient of the last batch), the last parameter first. divisor: of the session's sums."""
        held, updated = self._captured.tensors, self._updated()
        for name in reversed([name for name, _ in self.model.named_parameters() if name in updated]):
            gradient = torch.from_numpy(self._session.read_gradient(name)).div_(divisor)
            yield held[name], gradient.reshape(held[name].shape).to(held[name].device)

    def values(self):
        """The current values of the parameters by their names, as arrays, without changing the module."""
        self._require_begun()
        if self._own is not None or self._update is not None:
            trained = self._names_of_trained()
            return {name: numbers(p).reshape(p.shape).copy() for name, p in self.model.named_parameters() if name in trained}
        held = {name for name, slot in self._session.state_names if not slot}  # without those that no operation uses
        return {name: self._values.value(name) for name in sorted(self._trained & held)}

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
        values = {name: self._values.value(name) for name, _, _ in self._captured.model.parameters}
        self._captured.model.write(str(path), values)

    def _ids_of_noise(self, batch):
        """Other ids than in all evaluations before, by which evaluation draws its numbers, if it draws any."""
        if not self._captured.draws or self._external:
            return {}
        size = samples_of(batch)
        self._drawn += size
        return {"samples": numpy.arange(self._drawn - size, self._drawn)}

    def _structured(self, batch):
        """A batch of tensors with the structure in which it was given."""
        return batch if self._given is None else self._given.rebuilt(iter(batch))

    def _computed(self, batch, compute):
        """What compute(arrays) gives for a batch, of which the first may have labels that the loss ignores."""
        try:
            return compute(self._arrays(batch))
        except _native.Error:
            if not any(has_some(batch) for has_some in self._captured.ignored):
                raise
        self._values.catch_up(with_state=True)
        self._programs.takes_ignored = True
        self._captured = self._programs.model()
        self._new_session(len(batch[0]))
        self._take_module()
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
            self._take_module()
        elif self._own is None:
            self._values.take_changes(with_state=False)
