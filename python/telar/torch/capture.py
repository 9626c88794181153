"""A module with its loss as a model of Telar."""

import contextlib
import dataclasses
import inspect
import io
import random
import re
import sys
import traceback

import numpy
import torch

from telar import _native
from telar.parameters import Parameters
from telar.torch.attributes import untouched
from telar.torch.decomposition import decompose
from telar.torch.lowering import Lowering
from telar.torch.operations.elementwise import sum_as_mean
from telar.torch.regions import inline
from telar.torch.rewriting import rewrite
from telar.torch.values import Refusal, Total, Value

RESERVED = {"sample", "random", "learning_rate", "samples", "step"}


@dataclasses.dataclass
class Captured:
    """A model of Telar, and how it belongs to the module.

    inputs: name and element type of each tensor of a batch, in its order; of those that are not used, None.
    host: functions of a batch, by the names of further inputs (telar.torch.host).
    tensors: the module's parameters and running statistics by name; moving: the names of those that a step changes.
    mean: whether the loss is a mean over the samples, not their sum.
    draws: whether the evaluation has random numbers; training_draws: whether training has.
    same_in_evaluation: whether training and evaluation are the same program.
    output_is_tensor: whether the module returns one tensor.
    ignored: functions that say whether a batch has labels that a loss ignores and the graphs do not take.
    calls: how often a step counts in the counter of a batch norm, by its name.
    no_evaluation, no_prediction: why there is no loss in evaluation mode, and no prediction, or None.
    constants: the names of the buffers that the graphs have as constants, with the values of the capture.
    operations: PyTorch's graphs as texts, and the constants in them, by which models of several processes are compared.
    """

    model: object
    inputs: list
    host: dict
    tensors: dict
    moving: set
    mean: bool
    draws: bool
    training_draws: bool
    same_in_evaluation: bool
    output_is_tensor: bool
    ignored: list = dataclasses.field(default_factory=list)
    calls: dict = dataclasses.field(default_factory=dict)
    no_evaluation: str = None
    no_prediction: str = None
    constants: list = dataclasses.field(default_factory=list)
    operations: list = dataclasses.field(default_factory=list)


class Seen:
    """What a module's call shows beside its result. PyTorch's export restores the module's own attributes."""

    output_is_tensor = False
    is_called = False  # at this moment
    reads_modes = False  # whether a call has read whether a layer is in training


class WithLoss(torch.nn.Module):
    """A module and its loss: from a batch to the loss and the module's output at its first call."""

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss
        self.seen = Seen()

    def forward(self, *batch):
        self.seen.is_called = True
        try:
            return self._forward(batch)
        finally:
            self.seen.is_called = False

    def _forward(self, batch):
        if is_criterion(self.loss, len(batch)):
            inputs, target = inputs_and_target(batch)
            output = self.model(*inputs)
            self.seen.output_is_tensor = isinstance(output, torch.Tensor)
            return self.loss(output, target), first_tensor(output)
        outputs = []
        hook = self.model.register_forward_hook(lambda module, given, output: outputs.append(output))
        try:
            loss = self.loss(self.model, *batch)
        finally:
            hook.remove()
        if not outputs:
            raise Refusal("the loss does not call the module")
        self.seen.output_is_tensor = len(outputs) == 1 and isinstance(outputs[0], torch.Tensor)
        return loss, first_tensor(outputs[0])


def inputs_and_target(batch):
    """What a criterion's module and the criterion itself take of a batch."""
    *inputs, target = batch
    if not isinstance(target, torch.Tensor):
        raise Refusal("the loss is one of (prediction, target), but the last member of the batch is no tensor; give a function of the "
                      "module and the batch: lambda model, batch: ...")
    return inputs, target


def first_tensor(output):
    """The first tensor of a module's output that has axes, which is its prediction; if none has, the first."""
    tensors = tensors_of(output)
    return next((tensor for tensor in tensors if tensor.dim()), tensors[0] if tensors else None)


def tensors_of(output):
    if isinstance(output, torch.Tensor):
        return [output]
    members = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return [tensor for member in members for tensor in tensors_of(member)]


def is_criterion(loss, count):
    """Whether a loss is of (prediction, target), not of (model, *batch), of a batch of so many tensors.

    A function of one's own is what its arguments allow; if they allow both, those without defaults tell. Raises Refusal if they
    allow neither.
    """
    function = getattr(loss, "func", loss)  # of a functools.partial
    if isinstance(loss, torch.nn.Module) or (getattr(function, "__module__", None) or "").startswith(("torch.", "torchvision.")):
        return True
    takes_batch, takes_pair = takes(loss, 1 + count), takes(loss, 2)
    if takes_batch and takes_pair and count > 1 and needed(loss) == 2:
        return True
    if takes_batch:
        return False
    if takes_pair:
        return True
    name = getattr(loss, "__name__", type(loss).__name__)
    raise Refusal(f"the loss {name}{inspect.signature(loss)} takes neither (prediction, target) nor the module and the batch, "
                  f"which has {count} {'tensor' if count == 1 else 'tensors'}")


def takes(function, count):
    """Whether a function can be called with so many arguments. If it does not say, it is assumed."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def needed(function):
    """How many arguments without defaults a function has."""
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in given)


class Capture:
    """The programs of a module and its loss for such batches, in training and in evaluation.

    trained: names of the parameters that are trained; the others are fixed. takes_ignored: as Lowering has it, and always
    if the batch has such labels.
    Raises Refusal if PyTorch cannot export them.
    """

    def __init__(self, module, loss, batch, trained, takes_ignored=False):
        self.module, self.loss, self.trained, self.takes_ignored = module, loss, trained, takes_ignored
        self.sum_as_mean = False
        self.batch = batch = example(batch)
        self.names = input_names(loss, len(batch))
        self.shared = shared_names(module)
        whole = WithLoss(module, loss)
        with modes_kept(whole), untouched(whole):
            begin_training(whole)
            with reads_of_modes(whole):
                self.training = export(whole, batch)
            self.output_is_tensor = whole.seen.output_is_tensor
            self.evaluation, self.no_evaluation = self.training, None
            if whole.seen.reads_modes:
                try:
                    whole.eval()
                    self.evaluation = export(whole, batch)
                except NotImplementedError:  # a module of torch.export has no modes
                    pass
                except Refusal as reason:  # as of a module whose outputs are others then
                    self.evaluation, self.no_evaluation = None, str(reason)
        self.same_in_evaluation = self.evaluation is not None and (
            self.evaluation is self.training or str(self.training.graph) == str(self.evaluation.graph))

    def model(self, check=False):
        """The model of Telar that computes what the programs compute. Raises Refusal if it cannot be right.

        check: as Lowering has it.
        """
        parameters = Parameters()
        training, mean = self._loss(self.training, parameters, check)
        if not mean and parameters.has_statistics():  # which are divided by the number of samples, as a mean is
            self.sum_as_mean = True
            return self.model(check)
        if any(has_some(self.batch) for has_some in training.ignored):
            self.takes_ignored = True
            return self.model(check)
        used = self.trained & training.influential  # the output may need further ones
        evaluation, no_evaluation = self._evaluation(parameters, check, training)
        prediction, no_prediction = self._prediction(parameters, used)
        lowerings, graphs = (training, evaluation, prediction), [lowering.graph for lowering in (training, evaluation, prediction)]
        described = parameters.described()
        built = _native.Model.of_graphs(type(self.module).__name__, *graphs, described, ["loss"])
        types, host = {}, {}
        for lowering in lowerings:
            types |= lowering.inputs
            host |= {name: function for name, (_, function) in lowering.host.items()}
        tensors = dict(self.module.named_parameters(remove_duplicate=False))
        tensors |= dict(self.module.named_buffers(remove_duplicate=False))
        held = {name: tensors[name] for name, *_ in described if name in tensors}
        moving = {name for name, role, *_ in described if role != "fixed" and name in held}
        named = [(name, types.get(name)) for name in self.names]
        counters = self._counted(training.calls)
        constants = sorted(set().union(*(lowering.buffers for lowering in lowerings)) - set(held) - set(counters))
        return Captured(built, named, {name: (types[name], host[name]) for name in host}, held, moving, mean,
                        evaluation.random is not None, training.random is not None, self.same_in_evaluation,
                        self.output_is_tensor, training.ignored, counters, no_evaluation, no_prediction, constants,
                        [str(form[:3]) for form in described] + [part for program in (self.training, self.evaluation) if program
                                                                 for part in (str(program.graph), *tensors_of(program.constants))])

    def _counted(self, calls):
        """How often a step counts in each counter. calls: of batch norms in training, by their running statistics."""
        often = {name: len(found) for name, found in calls.items()}
        names = {f"{name}.".removeprefix("."): layer for name, layer in self.module.named_modules()}
        counts = {f"{name}num_batches_tracked": often.get(f"{name}running_mean", 0)
                  for name, layer in names.items() if isinstance(getattr(layer, "num_batches_tracked", None), torch.Tensor)}
        return {name: count for name, count in counts.items() if count}

    def _loss(self, program, parameters, check):
        """The lowering whose graph adds the loss to its metric; whether it is a mean."""
        lowering = Lowering(program, parameters, self.names, self.trained, self.shared, check, self.takes_ignored)
        loss = lowering.output(0)
        if not isinstance(loss, Value):
            raise Refusal("the loss does not depend on the samples")
        if loss.total is None:
            raise Refusal("the loss is a number for each sample; take their mean or their sum" if loss.rank else
                          "the loss cannot be shown to be a sum or mean over the samples")
        if self.sum_as_mean:
            loss = sum_as_mean(lowering, loss, lowering.first_input())
        lowering.graph.add("accumulate", [lowering.graph.metric("loss"), loss.id])
        return lowering, loss.total is Total.MEAN

    def _evaluation(self, parameters, check, training):
        """The lowering of the loss in evaluation mode; or one whose loss is 0, and why. training: the other lowering."""
        reason = self.no_evaluation
        if reason is None:
            try:
                return self._loss(self.evaluation, parameters, check)[0], None
            except Refusal as refusal:
                reason = str(refusal)
        lowering, zeros = self._zeros(self.training, parameters, training)
        total = lowering.emit("reduce_sum", [zeros], {"axes": list(range(zeros.rank)), "keep_dims": False})
        lowering.graph.add("accumulate", [lowering.graph.metric("loss"), total])
        return lowering, reason

    def _prediction(self, parameters, trained):
        """The lowering of the module's output; or one whose output is 0, and why. trained: the parameters of the loss."""
        reason = self.no_evaluation
        if reason is None:
            try:
                lowering = Lowering(self.evaluation, parameters, self.names, trained, self.shared)
                prediction = lowering.output(1)
                if not isinstance(prediction, Value) or not prediction.rank or not lowering.is_batch(prediction.shape[0]):
                    raise Refusal("the module's output does not have the samples in axis 0")
                if not all(isinstance(extent, int) for extent in prediction.shape[1:]):
                    raise Refusal("the module's output has the samples in a further axis than axis 0, so a sample depends on others")
                lowering.graph.output("prediction", prediction.id)
                return lowering, None
            except Refusal as refusal:
                reason = str(refusal)
        lowering, zeros = self._zeros(self.evaluation or self.training, parameters)
        lowering.graph.output("prediction", zeros.id)
        return lowering, reason

    def _zeros(self, program, parameters, like=None):
        """A lowering, and a zero for each sample."""
        lowering = Lowering(program, parameters, self.names, self.trained, self.shared)
        return lowering, lowering.zeros_of_samples(like)


def shared_names(module):
    """For each parameter or buffer that has several names, the first by the others."""
    first, shared = {}, {}
    held = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, tensor in held:
        if first.setdefault(id(tensor), name) != name:
            shared[name] = first[id(tensor)]
    return shared


def example(batch):
    """The batch, of at least two samples, so that its extent is not taken for a constant."""
    for tensor in batch:
        if not isinstance(tensor, torch.Tensor):
            raise Refusal(f"a batch must be of tensors, not of {type(tensor).__name__}; give a number as a tensor with one value "
                          "for each sample")
        if tensor.dim() == 0 or len(tensor) != len(batch[0]):
            raise Refusal("all tensors of a batch must have the samples in axis 0: they have the shapes "
                          + ", ".join(str(list(t.shape)) for t in batch))
    if len(batch[0]) == 0:
        raise Refusal("the batch has no samples")
    return tuple(torch.cat([tensor, tensor]) if len(tensor) == 1 else tensor for tensor in (t.detach() for t in batch))


def input_names(loss, count):
    """The names of a batch's tensors: "x" first; "label" for the target of a criterion."""
    if is_criterion(loss, count):
        names = ["x", *[f"x{i}" for i in range(2, count)], "label"][:count]
        return names if count > 1 else ["x"]
    try:
        given = getattr(loss, "names", None) or [p.name for p in inspect.signature(loss).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:count + 1]
    except ValueError:
        given = []
    names = ["x"]
    for i in range(1, count):
        name = given[i] if i < len(given) else f"x{i + 1}"
        names.append(f"{name}_" if name in RESERVED or name in names else name)
    return names


def begin_training(whole):
    """Puts a module with its loss into the mode of a training step: each layer in the one that its author gave it.

    A module that is in evaluation mode itself is put into training mode; where that matters, Step refuses to train it.
    """
    if not whole.model.training:
        whole.train()


@contextlib.contextmanager
def modes_kept(module):
    """Afterwards each layer is in training or evaluation mode as before; one with a train() of its own is told so by that."""
    modes = {layer: layer.training for layer in module.modules()}
    try:
        yield
    finally:
        for layer, mode in modes.items():
            if layer.training != mode and switches_itself(layer):
                layer.train(mode)
        for layer, mode in modes.items():
            layer.training = mode


def switches_itself(layer):
    """Whether a layer, or its class, has a train() or eval() of its own."""
    return any(getattr(getattr(layer, name), "__func__", None) is not getattr(torch.nn.Module, name) for name in ("train", "eval"))


def has_own_modes(layer):
    """Whether what a layer computes may depend on its mode although the call does not read it as PyTorch's layers do."""
    return (isinstance(layer, torch.jit.ScriptModule) or hasattr(type(layer), "training") or switches_itself(layer)
            or type(layer).__getattribute__ is not torch.nn.Module.__getattribute__)


@contextlib.contextmanager
def reads_of_modes(whole):
    """Meanwhile whole.seen is told when a call reads whether a layer is in training. What else may depend on the mode counts as read."""
    seen = whole.seen
    plain = torch.nn.Module
    seen.reads_modes = any(has_own_modes(layer) for layer in whole.modules())

    def read(layer):
        seen.reads_modes |= seen.is_called
        return vars(layer)["training"]

    def write(layer, mode):
        vars(layer)["training"] = mode

    if seen.reads_modes:
        yield
        return
    plain.training = property(read, write)
    try:
        yield
    finally:
        del plain.training


class SameMasks(torch.overrides.TorchFunctionMode):
    """Gives one tensor for comparisons that are the same, as of labels[labels > 0] and losses[labels > 0]."""

    COMPARISONS = {name for comparison in ("gt", "ge", "lt", "le", "eq", "ne") for name in (comparison, f"__{comparison}__")}

    def __init__(self):
        super().__init__()
        self.known = []  # (function, arguments, their versions, result, its version)

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if getattr(function, "__name__", "") not in self.COMPARISONS or keywords:
            return function(*arguments, **(keywords or {}))
        versions = [argument._version for argument in arguments if isinstance(argument, torch.Tensor)]
        for other, given, at, result, unchanged in self.known:
            alike = all(a is b or (type(a) is type(b) and isinstance(a, (int, float)) and a == b) for a, b in zip(given, arguments))
            if other is function and alike and at == versions and result._version == unchanged:
                return result
        result = function(*arguments)
        self.known.append((function, arguments, versions, result, result._version))
        return result


class FreeClassProbabilities(torch.overrides.TorchFunctionMode):
    """The cross-entropy of targets that are probabilities, in whose own form PyTorch takes the number of samples for a constant."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        if function is not torch.nn.functional.cross_entropy:
            return function(*arguments, **keywords)
        given = inspect.signature(function).bind(*arguments, **keywords)
        given.apply_defaults()
        input, target, weight = (given.arguments[name] for name in ("input", "target", "weight"))
        reduction, smoothing = given.arguments["reduction"], given.arguments["label_smoothing"]
        if not target.is_floating_point() or input.dim() < 2 or input.dim() != target.dim() or reduction == "none":
            return function(*arguments, **keywords)
        classes = input.shape[1]
        target = target * (1 - smoothing) + smoothing / classes if smoothing else target
        losses = -torch.log_softmax(input, 1) * target
        if weight is not None:
            losses = losses * weight.reshape(-1, *[1] * (input.dim() - 2))
        losses = losses.sum(1)
        return losses.mean() if reduction == "mean" else losses.sum()


@contextlib.contextmanager
def values_not_compared():
    """What PyTorch's own modules ask of values and extents, which cannot be exported, is left out.

    nn.Transformer compares its mask with a causal one, to choose a faster kernel; distributions check their arguments; einsum
    of three tensors compares extents, to choose an order. What two masks of the same comparison choose has the same extent.
    """
    transformer, distribution = torch.nn.modules.transformer, torch.distributions.Distribution
    compare, validate = transformer._detect_is_causal_mask, distribution._validate_args
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)
    distribution._validate_args = False
    try:
        with torch.backends.opt_einsum.flags(enabled=False), SameMasks(), FreeClassProbabilities():
            yield
    finally:
        transformer._detect_is_causal_mask = compare
        distribution._validate_args = validate


def place_of(error):
    """The line of the user's code at which an exception was raised."""
    found = "no line is known"
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if "/torch/" not in path and "/telar/" not in path:
            found = f'"{path}", line {line}, in {frame.f_code.co_name}'
    return found


def violated(text):
    """What is wrong with a number of samples that PyTorch found not to be free."""
    constant = re.search(r"specialized it to be a constant \((\d+)\)", text)
    if constant:
        return (f"takes the number of samples for a constant, {constant[1]}: as len(x) does, a size that is written as a number, or a "
                "tensor with a row for each sample that is not of the batch; write x.shape[0], and give such a tensor with the batch")
    guards = re.findall(r"generated guard (.*)", text)
    return (f"computes something else for other numbers of samples ({'; '.join(guards) or 'PyTorch does not say where'}), as where it "
            "branches on x.shape[0]; choose outside of the module")


DRAWS_OUTSIDE = ("or its loss draws numbers from Python's random or numpy.random, which a graph would keep as they were at the first step; "
                 "draw them with PyTorch, or outside, and give them as a tensor of the batch, or use engine=\"torch\"")


def drawn():
    """Python's own state of chance."""
    kind, keys, *rest = numpy.random.get_state()
    return random.getstate(), kind, keys.tobytes(), tuple(rest)


@contextlib.contextmanager
def states_of_lstm():
    """While it exports, PyTorch 2.11 gives the last states of an LSTM that is not the first layer an axis too many."""
    decompositions = torch._decomp.decompositions
    layer = decompositions.one_layer_lstm

    def right(inp, hidden, *arguments, **options):
        y, states = layer(inp, hidden, *arguments, **options)
        return y, tuple(state.reshape(before.shape) for state, before in zip(states, hidden))

    decompositions.one_layer_lstm = right
    try:
        yield
    finally:
        decompositions.one_layer_lstm = layer


def export(module, batch):
    """The program of a module for any number of samples, in PyTorch's training IR."""
    extent = torch.export.Dim("batch", min=1)
    shapes = (tuple({0: extent} for _ in batch),)
    written = io.StringIO()  # of what fails, PyTorch writes the whole graph to stderr
    before = drawn()
    try:
        with values_not_compared(), states_of_lstm(), contextlib.redirect_stderr(written):
            program = torch.export.export(module, batch, dynamic_shapes=shapes, strict=False)
        sys.stderr.write(written.getvalue())
        inline(program.graph, program.graph_module)
        rewrite(program)
        decompose(program)
        return program
    except Refusal:
        raise
    except Exception as error:
        if drawn() != before:
            raise Refusal(f"{type(module.model).__name__} {DRAWS_OUTSIDE}") from error
        if "data-dependent" in str(error):
            raise Refusal(f"{type(module.model).__name__} branches on a value that is known only at the step ({place_of(error)}), as where "
                          "it leaves out layers by chance or checks its inputs; choose by torch.where, turn it off (layerdrop=0.0 in Hugging "
                          "Face's models), or use engine=\"torch\"") from error
        if "Constraints violated" in str(error):
            raise Refusal(f"{type(module.model).__name__} or its loss {violated(str(error))}") from error
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Refusal(f"PyTorch cannot export {type(module.model).__name__}: {first}") from error
