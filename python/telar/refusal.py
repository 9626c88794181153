"""What the doors to frameworks refuse, and the options that all of them take."""

import math

from telar import _native


class Refusal(_native.Error):
    """A model that Telar cannot train as it is. The text names the operation, its place, and what to change."""


def not_finite(step, loss, restored):
    """Why a step fails. restored: what the values are again, if only a gradient was not finite, and the step was made."""
    if math.isfinite(loss):
        return Refusal(f"a gradient of step {step} is not finite, although its loss is {loss}; the values are again {restored}")
    return Refusal(f"step {step} is not finite: its loss is {loss}; nothing was updated")


def devices_of(device):
    """The names of the devices, as a job has them: one for all workers, or one for each."""
    names = [device] if isinstance(device, str) or not isinstance(device, (list, tuple)) else list(device)
    if not names:
        raise Refusal("device has no name; give one for all workers, or one for each")
    return [str(name) for name in names]


def on_gpus(devices):
    return not devices[0].startswith("cpu")


def checked_options(strategy, precision, options):
    """The options of a strategy. A batch norm is the framework's own: it has the statistics of the whole batch."""
    if precision not in ("f32", "bf16"):
        raise Refusal(f"the precision is '{precision}'; it must be f32 or bf16")
    if "batch_norm" in _native.strategy_options(strategy):
        return {"batch_norm": "synchronised"} | options
    return options
