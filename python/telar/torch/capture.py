"""A module with its loss as a model of Telar."""

import contextlib
import dataclasses
import inspect

import torch

from telar import _native
from telar.torch.lowering import Lowering, Parameters
from telar.torch.values import Refusal, Total, Value

RESERVED = {"sample", "random", "learning_rate", "samples", "step"}


@dataclasses.dataclass
class Captured:
    """A model of Telar, and how it belongs to the module.

    inputs: name and element type of each tensor of a batch, in its order; of those that are not used, None.
    tensors: the module's parameters and running statistics by name.
    mean: whether the loss is a mean over the samples, not their sum.
    """

    model: object
    inputs: list
    tensors: dict
    mean: bool


class WithLoss(torch.nn.Module):
    """A module and its loss, from a batch to a number."""

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *batch):
        if is_criterion(self.loss):
            *inputs, target = batch
            return self.loss(self.model(*inputs), target)
        return self.loss(self.model, *batch)


class Prediction(torch.nn.Module):
    """The module alone, of the first tensors of a batch."""

    def __init__(self, model, count):
        super().__init__()
        self.model = model
        self.count = count

    def forward(self, *batch):
        return self.model(*batch[:self.count])


def is_criterion(loss):
    """Whether a loss is of (prediction, target), not of (model, *batch)."""
    return isinstance(loss, torch.nn.Module) or getattr(loss, "__module__", "").startswith("torch.")


def capture(model, loss, batch, trained, check=False):
    """The model of Telar that computes what the module and its loss compute for such batches.

    trained: names of the parameters that are trained; the others are fixed. check: Lowering.
    Raises Refusal if it cannot be right.
    """
    batch = example(batch)
    names = input_names(loss, len(batch))
    parameters = Parameters()
    whole = WithLoss(model, loss)
    with modes_kept(whole):
        whole.train()
        model.train(True)
        training, mean, used = lowered_loss(export(whole, batch), parameters, names, trained, check)
        whole.eval()
        evaluation, _, used_later = lowered_loss(export(whole, batch), parameters, names, trained, check)
        count = inputs_of_model(model, loss, batch)
        prediction = lowered_prediction(export(Prediction(model, count), batch), parameters, names, trained)
    described = parameters.described()
    built = _native.Model.of_graphs(type(model).__name__, training, evaluation, prediction, described, ["loss"])
    forms = {**used_later, **used}
    tensors = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    held = {name for name, role, _, _ in described if not name.startswith("constant.")}
    return Captured(built, [(name, forms.get(name)) for name in names],
                    {name: tensor for name, tensor in tensors.items() if name in held}, mean)


def example(batch):
    """The batch, of at least two samples, so that its extent is not taken for a constant."""
    for tensor in batch:
        if not isinstance(tensor, torch.Tensor):
            raise Refusal(f"a batch must be of tensors, not of {type(tensor).__name__}")
        if tensor.dim() == 0 or len(tensor) != len(batch[0]):
            raise Refusal("all tensors of a batch must have the samples in axis 0: they have the shapes "
                          + ", ".join(str(list(t.shape)) for t in batch))
    if len(batch[0]) == 0:
        raise Refusal("the batch has no samples")
    return tuple(torch.cat([tensor, tensor]) if len(tensor) == 1 else tensor for tensor in (t.detach() for t in batch))


def input_names(loss, count):
    """The names of a batch's tensors: "x" first; "label" for the target of a criterion."""
    if is_criterion(loss):
        names = ["x", *[f"x{i}" for i in range(2, count)], "label"][:count]
        return names if count > 1 else ["x"]
    try:
        given = [p.name for p in inspect.signature(loss).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:count + 1]
    except ValueError:
        given = []
    names = ["x"]
    for i in range(1, count):
        name = given[i] if i < len(given) else f"x{i + 1}"
        names.append(f"{name}_" if name in RESERVED or name in names else name)
    return names


def inputs_of_model(model, loss, batch):
    """How many of a batch's tensors the module takes."""
    if is_criterion(loss):
        return len(batch) - 1
    required = [p for p in inspect.signature(model.forward).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return max(1, min(len(required), len(batch)))


@contextlib.contextmanager
def modes_kept(module):
    """Afterwards each layer is in training or evaluation mode as before."""
    modes = {layer: layer.training for layer in module.modules()}
    try:
        yield
    finally:
        for layer, mode in modes.items():
            layer.training = mode


def export(module, batch):
    """The program of a module for any number of samples, in PyTorch's training IR."""
    extent = torch.export.Dim("batch", min=1)
    shapes = (tuple({0: extent} for _ in batch),)
    try:
        return torch.export.export(module, batch, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Refusal(f"PyTorch cannot export {type(module.model).__name__}: {first}") from error


def lowered_loss(exported, parameters, names, trained, check):
    """The graph that adds the loss to its metric; whether it is a mean; the inputs and their types."""
    lowering = Lowering(exported, parameters, names, trained, check)
    loss, *others = lowering.outputs()
    if not isinstance(loss, Value) or others:
        raise Refusal("the loss must be one number that depends on the samples")
    if loss.total is None:
        if loss.rank == 1 and lowering.is_batch(loss.shape[0]):
            raise Refusal("the loss is a number for each sample; take their mean or their sum")
        raise Refusal("the loss cannot be shown to be a sum or mean over the samples")
    lowering.graph.add("accumulate", [lowering.graph.metric("loss"), loss.id])
    return lowering.graph, loss.total is Total.MEAN, lowering.used_inputs()


def lowered_prediction(exported, parameters, names, trained):
    lowering = Lowering(exported, parameters, names, trained)
    first = lowering.outputs()[0]
    if not isinstance(first, Value):
        raise Refusal("the module's output does not depend on the samples")
    lowering.graph.output("prediction", first.id)
    return lowering.graph
