"""A whole training: epochs, validation, progress."""

import sys
import time

from telar import _native
from telar.torch.step import Step
from telar.refusal import Refusal


def fit(model, loss, optimizer, loader, /, *, epochs=1, validation=None, scheduler=None, progress=True, **options):
    """Trains a module for some epochs over a loader of batches; returns a list with a dict for each epoch.

        history = telar.torch.fit(model, nn.CrossEntropyLoss(), optimizer, loader, epochs=3, validation=test_loader,
                                  strategy="mirrored", replicas=2)

    model, loss, optimizer, options: those of Step; also strategies with parameter servers, whose workers are threads:
    `strategy="downpour", workers=2, servers=2`. The loader then needs a length.
    validation: a loader; its mean loss, in evaluation mode. scheduler: of the learning rate; its step() is called after each epoch. progress: on standard error.
    Module and optimizer have the new values after each epoch, and after Ctrl-C, too.
    """
    step = Step(model, loss, optimizer, **options)
    history = []
    try:
        for epoch in range(1, epochs + 1):
            began = time.monotonic()
            line = _Line(f"epoch {epoch}/{epochs}", loader, progress)
            mean = _Mean()
            _make_epoch(step, epoch - 1, loader, mean, lambda: line.show(mean))
            results = {"epoch": epoch, "loss": mean.value(), "seconds": time.monotonic() - began,
                       "samples_per_second": mean.samples / max(time.monotonic() - began, 1e-9)}
            if validation is not None:
                results["validation_loss"] = _evaluated(step, validation)
            step.sync()
            if scheduler is not None:
                scheduler.step()
            line.end(results)
            history.append(results)
    finally:
        step.sync()
    return history


def _make_epoch(step, number, loader, mean, show):
    """The steps of an epoch, in this thread or by workers."""
    if _native.uses_servers(step.strategy):
        if not hasattr(loader, "__len__"):
            raise Refusal(f"for the strategy {step.strategy} the loader must have a length, the number of its batches")

        def done(samples, loss):
            mean.add(loss, samples)
            show()

        step.epoch(_batches(loader), len(loader), number, done)
        return
    for batch in _batches(loader):
        mean.add(step(*batch), len(batch[0]))
        show()


def _batches(loader):
    for batch in loader:
        yield tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


def _evaluated(step, loader):
    mean = _Mean()
    for batch in _batches(loader):
        mean.add(step.evaluate(*batch), len(batch[0]))
    return mean.value()


class _Mean:
    """The mean of losses over samples."""

    def __init__(self):
        self.sum, self.samples = 0.0, 0

    def add(self, loss, samples):
        self.sum += loss * samples
        self.samples += samples

    def value(self):
        return self.sum / self.samples if self.samples else float("nan")


class _Line:
    """Progress: a line that is written anew on a terminal, at most five times a second, and once at the end."""

    def __init__(self, title, loader, shown):
        self.title, self.shown, self.last, self.steps = title, shown, time.monotonic(), 0
        self.all = len(loader) if hasattr(loader, "__len__") else None
        self.anew = shown and sys.stderr.isatty()

    def show(self, mean):
        self.steps += 1
        if not self.anew or time.monotonic() - self.last < 0.2:
            return
        self.last = time.monotonic()
        of = f"{self.steps}/{self.all}" if self.all else str(self.steps)
        sys.stderr.write(f"\r\033[K{self.title}  step {of}  loss {mean.value():.4f}")
        sys.stderr.flush()

    def end(self, results):
        if not self.shown:
            return
        text = f"{self.title}  loss {results['loss']:.4f}  {results['samples_per_second']:.0f} samples/s"
        if "validation_loss" in results:
            text += f"  validation loss {results['validation_loss']:.4f}"
        sys.stderr.write(("\r\033[K" if self.anew else "") + text + "\n")
