"""The first batch, computed by Telar and by PyTorch itself.

A graph can be wrong without a sign: PyTorch's export loses backward functions of a user's own and hooks. So the
loss and the gradients of the first batch are compared. Random operations would differ, so both compute without
dropout, and draws are ones.
"""

import contextlib

import numpy
import torch

from telar import _native
from telar.torch.capture import WithLoss, capture, modes_kept
from telar.torch.values import Refusal

LOSS_ERROR = 1e-4  # relative
GRADIENT_ERROR = 1e-2  # of the norm over all parameters; PyTorch's own float32 is up to this far off
DROPOUTS = {torch.nn.functional.dropout, torch.nn.functional.dropout1d, torch.nn.functional.dropout2d,
            torch.nn.functional.dropout3d, torch.dropout, torch.dropout_, torch.feature_dropout}


class WithoutChance(torch.overrides.TorchFunctionMode):
    """Dropout changes nothing, and draws are ones."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = dict(keywords or {})
        if function in DROPOUTS:
            return keywords["input"] if "input" in keywords else arguments[0]
        if function in (torch.Tensor.bernoulli_, torch.bernoulli):
            return torch.ones_like(arguments[0])
        if function is torch.nn.functional.scaled_dot_product_attention:
            keywords.pop("dropout_p", None)
            arguments = (*arguments[:4], 0.0, *arguments[5:])
        return function(*arguments, **keywords)


@contextlib.contextmanager
def untouched(module, seed_of=torch.random):
    """Afterwards parameters' gradients, buffers and random state are as before."""
    gradients = {p: p.grad for p in module.parameters()}
    buffers = {b: b.detach().clone() for b in module.buffers()}
    state = seed_of.get_rng_state()
    for parameter in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, values in buffers.items():
                buffer.copy_(values)
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        seed_of.set_rng_state(state)


def eager(model, loss, batch):
    """PyTorch's loss and gradients by name."""
    whole = WithLoss(model, loss)
    with modes_kept(whole), untouched(whole), WithoutChance():
        whole.train()
        result = whole(*batch)
        result.backward()
        gradients = {name: p.grad.detach().clone().numpy() for name, p in model.named_parameters() if p.grad is not None}
        return float(result.detach()), gradients


def require_equal(model, loss, batch, trained, arrays_of, threads):
    """Raises Refusal unless Telar's loss and gradients of a batch are PyTorch's."""
    captured = capture(model, loss, batch, trained, check=True)
    size = len(batch[0])
    session = _native.Session(captured.model, size, "sgd", {}, "single", {}, threads=threads)
    sums, _ = session.train(arrays_of(captured, batch), numpy.arange(size), 0.0, 1)
    divisor = size if captured.mean else 1
    right, gradients = eager(model, loss, batch)
    found = sums[0] / divisor
    if not abs(found - right) <= LOSS_ERROR * max(abs(right), 1e-3):
        raise Refusal(f"the loss of the first batch is {found:.6g} by Telar and {right:.6g} by PyTorch, "
                      "so the module does something that its graph does not")
    compare(session, gradients, trained, divisor)


def compare(session, gradients, trained, divisor):
    whole = numpy.sqrt(sum(float(numpy.square(g, dtype=numpy.float64).sum()) for g in gradients.values()))
    errors = {}
    for name in trained:
        right = gradients.get(name)
        found = session.read_gradient(name) / divisor
        right = numpy.zeros_like(found) if right is None else right.reshape(found.shape)
        errors[name] = float(numpy.sqrt(numpy.square(found - right, dtype=numpy.float64).sum()))
    total = numpy.sqrt(sum(error * error for error in errors.values()))
    if not total <= GRADIENT_ERROR * whole:
        worst = max(errors, key=errors.get)
        raise Refusal(f"the gradient of the first batch differs from PyTorch's by {total / max(whole, 1e-30):.2g} of its "
                      f"norm, most for '{worst}'; a backward function of its own or a hook is not in the graph")
