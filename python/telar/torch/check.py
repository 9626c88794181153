"""The first batch, computed by Telar and by PyTorch itself.

A graph can be wrong without a sign: PyTorch's export loses backward functions of a user's own and hooks. So the
loss and the gradients of the first batch are compared. Random operations would differ, so both compute without
dropout, and draws are ones.
"""

import contextlib
import copy

import numpy
import torch

from telar import _native
from telar.torch.capture import WithLoss, modes_kept
from telar.torch.values import Refusal

LOSS_ERROR = 1e-4  # relative
GRADIENT_ERROR = 1e-2  # of the norm over all parameters; PyTorch's own float32 is up to this far off
DROPOUTS = {torch.nn.functional.dropout, torch.nn.functional.dropout1d, torch.nn.functional.dropout2d,
            torch.nn.functional.dropout3d, torch.dropout, torch.dropout_, torch.feature_dropout}
# Functions that drop elements themselves: the name and position of the rate.
DROPOUT_ARGUMENT = {torch.nn.functional.scaled_dot_product_attention: ("dropout_p", 4),
                    torch.nn.functional.multi_head_attention_forward: ("dropout_p", 10),
                    torch.lstm: ("dropout", 5), torch.gru: ("dropout", 5)}


class WithoutChance(torch.overrides.TorchFunctionMode):
    """Dropout changes nothing, and draws are ones."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = dict(keywords or {})
        if function in DROPOUTS:
            return keywords["input"] if "input" in keywords else arguments[0]
        if function in (torch.Tensor.bernoulli_, torch.bernoulli, torch.randn_like):
            return torch.ones_like(arguments[0])
        if function in DROPOUT_ARGUMENT:
            name, position = DROPOUT_ARGUMENT[function]
            if name in keywords:
                keywords[name] = 0.0
            arguments = tuple(0.0 if i == position else argument for i, argument in enumerate(arguments))
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
        result, _ = whole(*batch)
        result.backward()
        gradients = {name: p.grad.detach().clone().numpy() for name, p in model.named_parameters() if p.grad is not None}
        return float(result.detach()), gradients


def require_equal(programs, batch, arrays_of, threads):
    """Raises Refusal unless Telar's loss and gradients of a batch are PyTorch's. programs: of a Capture."""
    model, loss, trained = programs.module, programs.loss, programs.trained
    captured = programs.model(check=True)
    size = len(batch[0])
    session = _native.Session(captured.model, size, "sgd", {}, "single", {}, threads=threads)
    sums, _ = session.train(arrays_of(captured, batch), numpy.arange(size), 0.0, 1)
    divisor = size if captured.mean else 1
    right, gradients = eager(model, loss, batch)
    found = sums[0] / divisor
    if not abs(found - right) <= LOSS_ERROR * max(abs(right), 1e-3):
        raise Refusal(f"the loss of the first batch is {found:.6g} by Telar and {right:.6g} by PyTorch, "
                      "so the module does something that its graph does not")
    found_gradients = {name: session.read_gradient(name) / divisor for name in trained}
    error, worst = difference(found_gradients, gradients)
    if error <= GRADIENT_ERROR:
        return
    exact = in_double(model, loss, batch)
    if exact is not None and difference(found_gradients, exact)[0] <= 3 * difference(gradients, exact)[0]:
        return  # so far off is PyTorch's own float32
    raise Refusal(f"the gradient of the first batch differs from PyTorch's by {error:.2g} of its norm, most for "
                  f"'{worst}'; a backward function of its own or a hook is not in the graph")


def in_double(model, loss, batch):
    """The gradients in float64, or None if the module cannot be copied or computed in it."""
    try:
        copied_model, copied_loss = copy.deepcopy((model, loss))
        copied_model.double()
        double = tuple(tensor.double() if tensor.is_floating_point() else tensor for tensor in batch)
        return eager(copied_model, copied_loss.double() if isinstance(loss, torch.nn.Module) else copied_loss, double)[1]
    except (RuntimeError, TypeError, copy.Error):
        return None


def difference(found, right):
    """The norm of the difference of gradients, relative to the norm of the right ones; and where most of it is."""
    errors, whole = {}, 0.0
    for name, values in found.items():
        exact = numpy.zeros_like(values) if right.get(name) is None else right[name].reshape(values.shape)
        errors[name] = float(numpy.square(values - exact, dtype=numpy.float64).sum())
        whole += float(numpy.square(exact, dtype=numpy.float64).sum())
    total = sum(errors.values())
    return (0.0 if total == 0 else (total / whole)**0.5 if whole > 0 else numpy.inf), max(errors, key=errors.get)
