"""A whole training: epochs, validation, checkpoints, progress."""

import itertools
import os
import sys
import time

import torch

from telar import _native
from telar.refusal import Refusal
from telar.torch.counted import weight_of
from telar.torch.notes import Notes
from telar.torch.step import Step
from telar.torch.structure import flattened
from telar.torch.values import samples_of


def fit(model, /, loss, optimizer, loader, *, epochs=1, validation=None, scheduler=None, output=None, resume=False,
        checkpoint_steps=0, patience=0, best=False, progress=True, **options):
    """Trains a module for some epochs over a loader of batches; returns a list with a dict for each epoch.

        history = telar.torch.fit(model, nn.CrossEntropyLoss(), optimizer, loader, epochs=3, validation=test_loader,
                                  strategy="mirrored", replicas=2, output="runs/first", resume=True)

    model, loss, optimizer, options: those of Step; also strategies with parameter servers, whose workers are threads:
    `strategy="downpour", workers=2, servers=2`. The loader then needs a length.
    validation: a loader; its mean loss, in evaluation mode, over the samples, or over the labels that the loss counts.
    scheduler: of the learning rate; its step() is called after each epoch, with the validation loss if it wants one.
    output: a folder for checkpoints, metrics.jsonl and the events of TensorBoard. A checkpoint is written after each epoch, and
        after each `checkpoint_steps` steps; the last two and that of the best epoch are kept.
    resume: whether to go on from the last checkpoint in the folder, if there is one.
    patience: of the validation loss: after so many epochs without improvement the training ends; 0: never.
    best: whether the module has, in the end, the values of the best epoch. progress: on standard error.
    Module and optimizer have the new values after each epoch, and after Ctrl-C, too.
    """
    if (patience or best) and validation is None:
        raise Refusal("patience and best follow the loss of the validation; give validation=, a loader")
    if output is None and (resume or checkpoint_steps or best):
        raise Refusal("resume, checkpoint_steps and best need checkpoints; give output=, a folder")
    if options.get("group") is not None:
        raise Refusal("fit is for one process; the processes of a group train in a loop, with a Step")
    step = Step(model, loss, optimizer, **options)
    if checkpoint_steps and _native.uses_servers(step.strategy):
        raise Refusal(f"the workers of the strategy {step.strategy} make whole epochs, after which there are checkpoints; leave out "
                      "checkpoint_steps")
    run = _Run(step, loader, scheduler, "" if output is None else os.fspath(output), resume, patience)
    try:
        while run.epoch < epochs and not run.stopped_early:
            line = _Line(f"epoch {run.epoch + 1}/{epochs}", loader, progress)
            line.end(run.make_epoch(validation, checkpoint_steps, line.show))
        run.make_session()
        if best:
            run.load_best()
    finally:
        step.sync()
    return run.history


class _Run:
    """The epochs of a training, from the checkpoint from which it continues."""

    def __init__(self, step, loader, scheduler, folder, resume, patience):
        self.step, self.loader, self.scheduler = step, loader, scheduler
        self.native = _native.Run(folder, resume, patience)
        self.notes = Notes(step, loader, scheduler)
        self.history = self.notes.restored(self.native.notes) if self.native.notes is not None else []

    @property
    def epoch(self):
        """Completed epochs."""
        return self.native.epoch

    @property
    def stopped_early(self):
        return self.native.stopped_early

    def make_epoch(self, validation, checkpoint_steps, show):
        """The steps of an epoch, in this thread or by workers; its results."""
        native, step = self.native, self.step
        began, before = time.monotonic(), native.samples_in_epoch
        at_begin = self.notes.chance()
        batches = _batches(self.loader)
        first = next(batches, None)
        if first is None:
            raise Refusal("the loader has no batches")
        self.make_session(first)
        last = [time.monotonic()]

        def done(samples, loss):
            now = time.monotonic()
            native.step_done(samples, loss, step.learning_rate(), now - last[0])
            last[0] = now
            show(native.step_in_epoch, native.loss_in_epoch / native.samples_in_epoch)

        batches = itertools.chain([first], batches)
        if _native.uses_servers(step.strategy):
            step.epoch(batches, self._length(), native.epoch, done)
        else:
            for batch in itertools.islice(batches, native.step_in_epoch, None):
                done(samples_of(flattened(batch)[0]), step(*batch))
                ends = hasattr(self.loader, "__len__") and native.step_in_epoch == len(self.loader)
                if checkpoint_steps and native.step % checkpoint_steps == 0 and not ends:
                    self._save(at_begin)
        seconds = time.monotonic() - began
        results = {"epoch": native.epoch + 1, "loss": native.loss_in_epoch / native.samples_in_epoch, "seconds": seconds,
                   "samples_per_second": (native.samples_in_epoch - before) / max(seconds, 1e-9)}
        if validation is not None:
            results["validation_loss"] = _evaluated(step, validation)
        step.sync()
        self._follow(results)
        native.epoch_done(results.get("validation_loss"))
        self.history.append(results)
        self._save(self.notes.chance())
        return results

    def make_session(self, batch=None):
        """Captures the module at a batch, and loads the checkpoint."""
        step = self.step
        if step.has_begun:
            return
        batch = next(_batches(self.loader)) if batch is None else batch
        step.begin(batch)
        if self.native.notes is not None:
            step.restore(self.native.load, self.notes.further, *self.notes.counts)

    def load_best(self):
        self.step.take(self.native.load_best)

    def _save(self, chance):
        self.step.change(lambda session: self.native.save(session, self.notes.text(chance, self.history)))

    def _follow(self, results):
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(results.get("validation_loss", results["loss"]))
        elif self.scheduler is not None:
            self.scheduler.step()

    def _length(self):
        if not hasattr(self.loader, "__len__"):
            raise Refusal(f"for the strategy {self.step.strategy} the loader must have a length, the number of its batches")
        return len(self.loader)


def _batches(loader):
    for batch in loader:
        yield tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


def _evaluated(step, loader):
    """The mean loss over a loader's samples, or over what the loss counts of them, however they are divided into batches."""
    total, whole = 0.0, 0.0
    for batch in _batches(loader):
        tensors, _ = flattened(batch)
        weight = weight_of(step.loss, tensors) if step.loss_is_mean else 1
        if weight:  # otherwise nothing counts, and the loss is no number
            total += step.evaluate(*batch) * weight
        whole += weight if step.loss_is_mean else len(tensors[0])
    return total / whole if whole else float("nan")


class _Line:
    """Progress: a line that is written anew on a terminal, at most five times a second, and once at the end."""

    def __init__(self, title, loader, shown):
        self.title, self.shown, self.last = title, shown, time.monotonic()
        self.all = len(loader) if hasattr(loader, "__len__") else None
        self.anew = shown and sys.stderr.isatty()

    def show(self, steps, loss):
        if not self.anew or time.monotonic() - self.last < 0.2:
            return
        self.last = time.monotonic()
        of = f"{steps}/{self.all}" if self.all else str(steps)
        sys.stderr.write(f"\r\033[K{self.title}  step {of}  loss {loss:.4f}")
        sys.stderr.flush()

    def end(self, results):
        if not self.shown:
            return
        text = f"{self.title}  loss {results['loss']:.4f}  {results['samples_per_second']:.0f} samples/s"
        if "validation_loss" in results:
            text += f"  validation loss {results['validation_loss']:.4f}"
        sys.stderr.write(("\r\033[K" if self.anew else "") + text + "\n")
