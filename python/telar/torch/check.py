"""The first batch, computed by Telar and by PyTorch itself.

A graph can be wrong without a sign: PyTorch's export loses backward functions of a user's own and hooks, which are looked
for in what PyTorch computes. The loss and the gradients of the first batch are compared, too. Random operations would
differ, so both compute without dropout, and draws are ones or halves.
"""

import contextlib
import copy
import math

import numpy
import torch

from torch.utils._python_dispatch import TorchDispatchMode

from telar import _native
from telar.comparison import LOSS_ERROR, beyond, errors, is_same_loss
from telar.torch.attributes import Attributes, untouched
from telar.torch.capture import WithLoss, begin_training, modes_kept, tensors_of
from telar.torch.fingerprint import hook_of_a_layer
from telar.torch.operations.random import HALF
from telar.torch.values import Refusal

aten = torch.ops.aten
BF16_ERROR = 3e-2  # of a loss whose products are in bf16
FLOAT32 = 3  # times the error of PyTorch's own float32, where that is more
BY_CHANGE = 2  # times what a change of the parameters by their rounding does to PyTorch's own float32
ROUNDING = 2.0**-23  # of a number by float32
MOST_ELEMENTS = 2**26  # of all tensors of a forward that Telar and PyTorch both compute before the first step
SIZES = (0.03, 1.0, 30.0, 1000.0)  # of numbers for which a backward is compared with the derivative
ROUNDINGS = 8  # changes of the parameters that are tried
DROPOUTS = {torch.nn.functional.dropout, torch.nn.functional.dropout1d, torch.nn.functional.dropout2d,
            torch.nn.functional.dropout3d, torch.dropout, torch.dropout_, torch.feature_dropout}
# Functions that drop elements themselves: the name and position of the rate.
DROPOUT_ARGUMENT = {torch.nn.functional.scaled_dot_product_attention: ("dropout_p", 4),
                    torch.nn.functional.multi_head_attention_forward: ("dropout_p", 10),
                    torch.lstm: ("dropout", 5), torch.gru: ("dropout", 5)}
# What draws give in a check: operation -> function of its arguments.
DRAWS = {aten.randn: lambda *_, **__: 1.0, aten.randn_like: lambda *_, **__: 1.0, aten.bernoulli: lambda *_, **__: 1.0,
         aten.bernoulli_: lambda *_, **__: 1.0, aten.exponential_: lambda *_, **__: 1.0,
         aten.rand: lambda *_, **__: HALF, aten.rand_like: lambda *_, **__: HALF,
         aten.uniform_: lambda x, low=0.0, high=1.0, **_: low + (high - low) * HALF,
         aten.normal_: lambda x, mean=0.0, std=1.0, **_: mean + std}


class FixedDraws(TorchDispatchMode):
    """Draws are ones, or halves if they are uniform."""

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        give = DRAWS.get(function.overloadpacket)
        return result if give is None else result.fill_(give(*arguments, **(keywords or {})))


class WithoutChance(torch.overrides.TorchFunctionMode):
    """Dropout changes nothing."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = dict(keywords or {})
        if function in DROPOUTS:
            return keywords["input"] if "input" in keywords else arguments[0]
        if function in DROPOUT_ARGUMENT:
            name, position = DROPOUT_ARGUMENT[function]
            if name in keywords:
                keywords[name] = 0.0
            arguments = tuple(0.0 if i == position else argument for i, argument in enumerate(arguments))
        return function(*arguments, **keywords)


def eager(model, loss, batch):
    """PyTorch's loss and gradients by name."""
    whole = WithLoss(model, loss)
    with modes_kept(whole), untouched(whole), FixedDraws(), WithoutChance():
        begin_training(whole)
        result, _ = whole(*batch)
        require_own_parameters(result, whole, batch)
        result.backward()
        gradients = {name: p.grad.detach().to_dense().clone().numpy(force=True) for name, p in model.named_parameters() if p.grad is not None}
        return float(result.detach()), gradients


def require_no_memory(model, loss, batch):
    """Raises Refusal if a call changes what the next one computes, or what somebody may read: a counter, a list of results."""
    whole = WithLoss(model, loss)
    with modes_kept(whole), untouched(whole), FixedDraws(), WithoutChance(), torch.enable_grad():
        begin_training(whole)
        buffers = [(buffer, buffer.detach().clone()) for buffer in whole.buffers()]

        def called():
            """The loss, and the buffers' values, which are then as before."""
            found = float(whole(*batch)[0].detach())
            moved = [buffer.detach().clone() for buffer, _ in buffers]
            with torch.no_grad():
                for buffer, values in buffers:
                    buffer.copy_(values)
            return found, moved

        calls = []
        for _ in range(3):  # the first may fill what the others only read
            attributes = Attributes(whole)
            calls.append(called())
        name = attributes.changed(with_tensors=False)
        if name is not None:
            raise Refusal(f"each call changes the attribute '{name.removeprefix('model.')}', and a graph has operations only")
        kept = attributes.changed(with_tensors=True)
        if kept is not None:
            attributes.disturb()
            try:
                calls.append(called())
            except Exception as error:
                raise Refusal(f"a call reads the tensor '{kept.removeprefix('model.')}', which one before has kept, and a graph does not") from error
    # Equal calls give equal bits; a tensor that is kept and read again may change little for this batch, and more for others.
    relative, absolute = (LOSS_ERROR, 1e-8) if kept is None else (0, 0)
    first, moved = calls[0]
    for other, values in calls[1:]:
        is_same = is_same_loss(other, first) if kept is None else other == first
        if not is_same and math.isfinite(first):
            raise Refusal(f"the loss of the first batch differs between two calls, {first:.6g} and {other:.6g}, so the module or the loss "
                          "keeps something that a graph does not have")
        if not all(torch.allclose(one, before, relative, absolute, equal_nan=True) for one, before in zip(values, moved)):
            raise Refusal("two calls with the first batch move the statistics to different values, so the module or the loss keeps something that "
                          "a graph does not have")


def require_repeatable(model, loss, batch):
    """Raises Refusal if a call with the first batch leaves something behind that changes the loss, and that cannot be put back."""
    whole, losses = WithLoss(model, loss), []
    for _ in range(2):
        with modes_kept(whole), untouched(whole), torch.enable_grad():
            begin_training(whole)
            losses.append(float(whole(*batch)[0].detach()))
    if not is_same_loss(*losses) and math.isfinite(losses[0]):
        raise Refusal(f"the loss of the first batch differs between two calls, {losses[0]:.6g} and {losses[1]:.6g}, by something that forward "
                      "changes or reads where Telar cannot put it back, such as an iterator or the time. Begin again with a new module and "
                      "engine=\"torch\" under the strategy single, which calls forward once a step")


def require_nothing_attached(model):
    """Raises Refusal for a module that has what a graph of operations in float32 would lose."""
    hook = hook_of_a_layer(model)
    if hook is not None:
        raise Refusal(f"{hook} would not be called; a graph has operations only")
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise Refusal(f"'{name}' of the module is {str(tensor.dtype).removeprefix('torch.')}, and Telar computes in float32")


def require_own_backward_of_none(model, loss, batch):
    """Raises Refusal for a backward that operations do not have, although the first batch may not show it."""
    whole, seen, calls = WithLoss(model, loss), [], {}
    with modes_kept(whole), untouched(whole), torch.enable_grad(), hooks_noted(seen), functions_noted(calls):
        begin_training(whole)
        result, _ = whole(*batch)
    if seen:
        raise Refusal(f"the module or the loss calls {seen[0]} of a tensor, which is not in a graph")
    for function in functions_of(result):
        own = getattr(type(function), "_forward_cls", None)
        if own is None or own.__module__.startswith("torch."):
            continue
        if own not in calls or not all(is_derivative(own, arguments) for arguments in calls[own]):
            raise Refusal(f"{own.__name__} has a backward function of its own, which is not in a graph")


@contextlib.contextmanager
def hooks_noted(seen):
    """Notes the names of the functions by which hooks of tensors are registered, or gradients kept, meanwhile."""
    before = {name: getattr(torch.Tensor, name) for name in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")}

    def noting(name, function):
        def register(tensor, *arguments, **keywords):
            seen.append(name)
            return function(tensor, *arguments, **keywords)

        return register

    for name, function in before.items():
        setattr(torch.Tensor, name, noting(name, function))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch.Tensor, name, function)


@contextlib.contextmanager
def functions_noted(calls):
    """Notes the arguments with which functions that have a backward of their own are called meanwhile, by their classes."""
    before = vars(torch.autograd.Function)["apply"]

    def apply(own, *arguments, **keywords):
        calls.setdefault(own, []).append(None if keywords else arguments)
        return before.__func__(own, *arguments, **keywords)

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = before


class Context:
    """Takes what the forward of such a function keeps for its backward."""

    def save_for_backward(self, *_):
        pass

    mark_non_differentiable = mark_dirty = set_materialize_grads = save_for_forward = save_for_backward


def is_derivative(own, arguments):
    """Whether the backward of such a function is the derivative of its operations: for numbers and gradients of several sizes."""
    generator = torch.Generator().manual_seed(0)

    def drawn(tensor, size):
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            return tensor
        return (size * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)).requires_grad_()

    if arguments is None or own.setup_context is not torch.autograd.Function.setup_context:
        return False
    try:
        for size in SIZES:
            given = [drawn(argument, size) for argument in arguments]
            inputs = [tensor for tensor in given if isinstance(tensor, torch.Tensor) and tensor.requires_grad]
            results = own.apply(*given), own.forward(Context(), *given)
            for gradient in (torch.randn(results[0].shape, generator=generator, dtype=torch.float64) * factor for factor in SIZES):
                found, right = (torch.autograd.grad(result, inputs, gradient, retain_graph=True, materialize_grads=True) for result in results)
                if not all(torch.allclose(a, b, 1e-4, 1e-6 * float(b.abs().max()), equal_nan=True) for a, b in zip(found, right)):
                    return False
    except (RuntimeError, TypeError, AttributeError, ValueError):
        return False
    return True


def functions_of(result):
    """The functions of backward from which a result is computed."""
    seen, todo = set(), [result.grad_fn]
    while todo:
        function = todo.pop()
        if function is not None and function not in seen:
            seen.add(function)
            todo += [following for following, _ in function.next_functions]
    return seen


def require_own_parameters(result, whole, batch):
    """Raises Refusal for a loss that depends on parameters of another module: in a graph they would be constants.

    A module may ask for the gradient of the batch, as those with checkpoints do.
    """
    own = {id(parameter) for parameter in whole.parameters()}
    given = {tensor.untyped_storage().data_ptr() for tensor in batch}
    for function in functions_of(result):
        variable = getattr(function, "variable", None)
        if variable is not None and id(variable) not in own and variable.untyped_storage().data_ptr() not in given:
            raise Refusal(f"the loss depends on a parameter of shape {list(variable.shape)} that is not one of the module; make "
                          "one module of all that is trained, or compute with torch.no_grad() what is not")


def compared(program, batch):
    """The first samples of a batch, with which Telar and PyTorch are compared before the first step: fewer where they are large.

    program: of the module with its loss, exported with such a batch. Of 224 x 224 images for a ResNet-50 they are two.
    """
    elements = sum(math.prod(hint(extent) for extent in tensor.shape)
                   for node in program.graph.nodes for tensor in tensors_of(node.meta.get("val")))
    return tuple(tensor[:max(2, MOST_ELEMENTS * len(batch[0]) // max(1, elements))] for tensor in batch)


def hint(extent):
    """An extent of a program, as it was with the batch that it was exported with."""
    return extent.node.hint if isinstance(extent, torch.SymInt) else extent


def require_equal(programs, batch, arrays_of, threads):
    """Raises Refusal unless Telar's loss and gradients of a batch are PyTorch's. programs: of a Capture."""
    model, loss, trained = programs.module, programs.loss, programs.trained
    captured = programs.model(check=True)
    size = len(batch[0])
    session = _native.Session(captured.model, size, "sgd", {}, "single", {}, threads=threads)
    sums, _ = session.train(arrays_of(captured, batch), numpy.arange(size), 0.0, 1, 0, 0 if captured.mean else 1)
    divisor = size if captured.mean else 1
    right, gradients = eager(model, loss, batch)
    loss_found = sums[0] / divisor
    if not is_same_loss(loss_found, right):
        raise Refusal(f"the loss of the first batch is {loss_found:.6g} by Telar and {right:.6g} by PyTorch, "
                      "so the module does something that its graph does not")
    held = {name for name, slot in session.state_names if not slot}  # what no operation uses has no gradient
    found = {name: session.read_gradient(name) / divisor if name in held else 0.0 for name in trained}
    places = beyond(found, gradients)
    if not places:
        return
    if is_rounding(model, loss, batch, found, gradients, places):
        return
    place = max(places, key=places.get)
    raise Refusal(f"the gradient of the first batch differs from PyTorch's by {places[place]:.2g} of its norm"
                  + (f" for '{place}'" if place else "")
                  + "; a backward function of its own or a hook is not in the graph")


def require_unchanged(captured, model, loss, batch, found, bf16):
    """Raises Refusal if the module and the loss compute something else than when they were captured.

    A graph keeps the numbers of that time: a weight of a loss that follows the epoch is then lost. The module must have
    the values of the step; found: Telar's loss of the batch in evaluation mode; bf16: its products are in bf16.
    """
    if captured.draws:
        return
    whole = WithLoss(model, loss)
    with modes_kept(whole), torch.no_grad():
        whole.eval()
        right = float(whole(*batch)[0])
    if not is_same_loss(found, right, BF16_ERROR if bf16 else 10 * LOSS_ERROR, 1e-2) and math.isfinite(right):
        raise Refusal(f"the loss of the last batch, in evaluation mode, is {found:.6g} by Telar and {right:.6g} by PyTorch with "
                      "the same values: the module or the loss has changed since it was captured at the first step; give what "
                      "changes as a tensor of the batch, or make a new Step after each change")


def is_rounding(model, loss, batch, found, gradients, places):
    """Whether Telar's gradients are no farther from PyTorch's than rounding can bring them.

    PyTorch's own float32 may be far off, too. Or a ReLU's input is so near 0 that rounding decides whether a gradient passes,
    as in a narrow network with a small batch: then small changes of the parameters move the gradient as far. One such change
    in float32 is tried first; only where it does not explain the difference, those in float64 decide, which take six times as long.
    """
    names = list(found)
    changed = computed_in(torch.float32, model, loss, batch, seed=0)
    if changed is not None:
        telars, by_rounding = errors(found, gradients, names), errors(changed, gradients, names)
        if all(telars[place] <= BY_CHANGE * by_rounding[place] for place in places):
            return True
    exact = computed_in(torch.float64, model, loss, batch)
    if exact is None:
        return False
    telars, by_rounding = errors(found, exact, names), errors(gradients, exact, names)
    for seed in range(ROUNDINGS + 1):
        if all(telars[place] <= FLOAT32 * by_rounding[place] for place in places):
            return True
        others = errors(computed_in(torch.float64, model, loss, batch, seed), exact, names)
        by_rounding = {place: max(by_rounding[place], others[place]) for place in places}
    return False


def computed_in(precision, model, loss, batch, seed=None):
    """The gradients in another precision, or None if the module cannot be copied or computed in it.

    seed: of changes of all parameters by about as much as float32 rounds them.
    """
    try:
        copied_model, copied_loss = copy.deepcopy((model, loss))
        copied_model.to(precision)
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in copied_model.parameters():
                    parameter.mul_(1 + ROUNDING * torch.randn(parameter.shape, generator=generator, dtype=precision))
        given = tuple(tensor.to(precision) if tensor.is_floating_point() else tensor for tensor in batch)
        return eager(copied_model, copied_loss.to(precision) if isinstance(loss, torch.nn.Module) else copied_loss, given)[1]
    except (RuntimeError, TypeError, copy.Error):
        return None
