"""From a program of torch.export to a graph of Telar.

The program is in PyTorch's training IR: the operations of ATen as the module calls them, with the module's
layers as scopes. Each is translated by a function of telar.torch.operations. What depends neither on the batch
nor on parameters is computed once, and is a constant of the graph.
"""

import math
import operator

import torch

from telar import _native
from telar.torch.host import HostFunction, HostValue
from telar.torch.operations import TRANSLATIONS
from telar.torch.operations.indexing import numbers
from telar.torch.operations.shaping import permuted, replaced
from telar.torch.program import VIEWS, changes_numbers, is_conversion_to_float, is_in_place, is_size, moves_statistics, name_of, roots_of, schema_arguments
from telar.torch.values import Refusal, Repeated, Uniform, Value

MOVES = {"cat", "stack", "to", "_to_copy", "clone", "contiguous", "expand"}  # integers that stay in the graph
SHAPES_OF_NOTHING = {"zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "expand"}
PROMOTING = {"add", "sub", "rsub", "mul", "div", "where", "maximum", "minimum", "pow", "atan2", "lerp", "addcmul", "xlogy"}
TAKING_INTEGERS = VIEWS - {"expand", "expand_as", "diagonal"} | MOVES - {"expand"} | {
    "embedding", "embedding_bag", "gather", "scatter", "scatter_add", "index", "index_select", "index_add",
    "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "long", "int", "bool"}
OF_EACH_ELEMENT = {"add", "sub", "rsub", "mul", "eq", "ne", "gt", "ge", "lt", "le", "logical_not", "logical_and", "logical_or", "bitwise_not",
                   "bitwise_and", "bitwise_or", "__and__", "__or__", "masked_fill", "where", "to", "_to_copy"}
ADDITIVE = {"add", "sub", "rsub", "mul", "div", "neg"}


def as_numbers(tensor):
    """A float32 array of at least one axis."""
    array = tensor.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return array.reshape(1) if array.ndim == 0 else array


class Lowering:
    """Builds one graph of a model from one program.

    names: of the inputs. trained: names of the parameters that are trained. shared: for a parameter with several names,
    the one that counts. For a `check`, random operations have no effect or give ones, in the graph as in PyTorch (telar.torch.check).
    takes_ignored: whether the graph takes labels that a loss ignores.
    """

    def __init__(self, exported, parameters, names, trained, shared=None, check=False, takes_ignored=False):
        exported.graph.eliminate_dead_code(lambda node: node.is_impure() or moves_statistics(node))
        self.exported = exported
        self.names = names
        self.parameters = parameters
        self.trained = trained
        self.shared = shared or {}
        self.check = check
        self.graph = _native.GraphBuilder()
        self.values = {}
        self.node = None
        self.of_result = set()  # names of the nodes to which its gradient passes
        self.batch = None  # an input, for operations that need the number of samples
        self.roots = roots_of(exported.graph)
        self.declared = {}  # parameters and constants by name
        self.calls = {}  # of batch norms in training, by their running statistics
        self.random = None
        self.permuted = {}  # id of a transposition -> (its source, order)
        self.inputs = {}
        self.given = set()  # ids of the batch's tensors
        self.host = {}  # HostValue by the name of its input
        self.logits = {}  # id of a log_softmax -> (its input, axis)
        self.normalised = {}  # id of logarithms of probabilities -> the axis along which these sum up to 1
        self.summands = {}  # id of a sum over the samples -> what it adds up: (function that gives the tensor, factor)
        self.takes_ignored = takes_ignored
        self.ignored = []  # functions that say whether a batch has labels that the graph does not take
        self.of_batch = set()  # nodes that depend on the batch and on constants only

    def output(self, number):
        """Translates what an output of the program needs; its value."""
        result = next(node for node in self.exported.graph.nodes if node.op == "output").args[0][number]
        self.of_result = {node.name for node in self._needed([result], with_gradient=True)}
        moving = [node for node in self.exported.graph.nodes if moves_statistics(node)]  # whether or not the loss needs them
        wanted = self._needed([result, *moving])
        self.of_batch = self._of_batch()
        self._require_no_state_is_changed()
        self._declare(wanted)
        for node in self.exported.graph.nodes:
            if node in wanted and node.op == "call_function":
                self._translate(node)
            elif node in wanted and node.op != "placeholder":
                raise Refusal(f"{node.op} of {node.target} cannot be translated")
        self._accumulate_statistics()
        return self._used(self.values[result])

    def zeros_of_samples(self, like=None):
        """A zero for each sample, in place of an output that cannot be translated. like: whose inputs the graph must have, too."""
        self._declare(set() if like is None else set(like.values))
        inputs = [value for value in self.values.values() if isinstance(value, Value)]
        for name, (value, function) in like.host.items() if like else ():
            id = self.graph.input(name, like.inputs[name], like.graph.shape(value.id))
            self.host[name], self.inputs[name] = (Value(id, value.shape, value.integer), function), like.inputs[name]
            inputs.append(self.host[name][0])
        zeros = [Value(self.emit("fill", [value], {"shape": [], "value": 0.0}), (self.batch.shape[0],)) for value in inputs]
        result = zeros[0]
        for other in zeros[1:]:
            result = Value(self.emit("add", [result, other]), result.shape)
        return result

    # For the translations of telar.torch.operations:

    def emit(self, name, inputs, attributes=None, which=0):
        """Adds an operation of Telar. inputs: values, or None; returns the id of a result, or of all (None)."""
        ids = [-1 if value is None else self.value(value).id for value in inputs]
        try:
            results = self.graph.add(name, ids, attributes or {})
        except _native.Error as error:
            raise Refusal(f"{error} ({self.place()})") from None
        return results if which is None else results[which]

    def result(self, name, inputs, attributes=None, which=0):
        """The same, as a value of the form that the current node's result has."""
        return self.like(self.emit(name, inputs, attributes, which))

    def like(self, id, total=None):
        """A value of the form that the current node's first tensor has."""
        form = self.form()
        return Value(id, tuple(form.shape), self.graph.is_integer(id), total)

    def form(self):
        form = self.node.meta["val"]
        return form[0] if isinstance(form, (tuple, list)) else form

    def value(self, of):
        """A value for what may be a constant tensor or a number."""
        if isinstance(of, Value):
            return of
        if isinstance(of, (int, float)):
            return Value(self.emit("constant", [], {"shape": [1], "value": float(of)}), ())
        if isinstance(of, torch.Tensor):
            return self._constant(of)
        if isinstance(of, Uniform):
            return self.ones(of.shape, of.number)
        if isinstance(of, HostValue):
            return self._host_input(of)
        if isinstance(of, Repeated):
            return Value(self.emit("mul", [self.ones((of.shape[0], *[1] * (len(of.shape) - 1))), of.tensor]), of.shape)
        raise self.refusal(f"takes {type(of).__name__} where a tensor is needed")

    def ones(self, shape, number=1.0):
        """A tensor of this form with equal elements; one of its extents may depend on the batch."""
        sizes = list(shape)
        depends = [axis for axis, extent in enumerate(sizes) if not isinstance(extent, int)]
        if not depends:
            return Value(self.emit("constant", [], {"shape": sizes or [1], "value": number}), tuple(shape))
        if len(depends) > 1:
            raise self.refusal("makes a tensor in which two extents depend on the batch")
        axis, rest = depends[0], [extent for extent in sizes if isinstance(extent, int)]
        if self.is_batch(sizes[axis]):
            first = self.emit("fill", [self.batch], {"shape": rest, "value": number})
        else:
            rows = self.emit("fill", [self.batch], {"shape": [self.items([sizes[axis]]), *rest], "value": number})
            first = self.emit("reshape", [Value(rows, ())], {"dims": [-1, *rest]})
        order = list(range(1, axis + 1)) + [0] + list(range(axis + 1, len(sizes)))
        return permuted(self, Value(first, (sizes[axis], *rest)), order)

    def is_batch(self, extent):
        """Whether an extent is the number of samples."""
        return not isinstance(extent, int) and str(extent) == str(self.batch.shape[0])

    def dims(self, shape):
        """A shape for the operation reshape: -1 is the extent that depends on the batch."""
        sizes = [extent if isinstance(extent, int) else -1 for extent in shape]
        if sizes.count(-1) > 1:
            raise self.refusal("has a result with two axes that depend on the batch, so it mixes samples")
        return sizes or [1]

    def items(self, shape):
        """The number of elements for each sample, or None if the shape does not depend on the batch."""
        elements = math.prod(shape)
        if isinstance(elements, int):
            return None
        for_one = elements.node.expr / self.batch.shape[0].node.expr
        if not for_one.is_Integer:
            raise self.refusal("reduces a number of elements that is not a multiple of the batch")
        return int(for_one)

    def node_of(self, argument):
        """The node, number or tensor that the current node has as this argument."""
        return schema_arguments(self.node.target, self.node.args, self.node.kwargs).get(argument)

    def first_input(self):
        return next(node for node in self.exported.graph.nodes if node.name == self.exported.graph_signature.user_inputs[0])

    def number_of_batch(self, argument):
        """The node of an argument that is one number of the whole batch, computed without parameters; else None."""
        node = self.node_of(argument)
        is_one = isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dim() == 0
        depends = is_one and (isinstance(self.values[node], HostValue) or getattr(self.values[node], "total", None))
        return node if depends and node in self.of_batch else None

    def from_batch(self, node, then, named, items, dtype=torch.float32, title="of_batch"):
        """A value [N, items...] that PyTorch computes of the batch. then, named: as HostFunction has them."""
        function = HostFunction(node, self.exported, then, named, self.node)
        return self.value(HostValue(function, (self.batch.shape[0], *items), dtype, title))

    def random_inputs(self):
        """The inputs from which random numbers are made: sample ids and random state."""
        if self.random is None:
            batch = self.graph.shape(self.batch.id)[0]
            self.random = (Value(self.graph.input("sample", "i32", [batch, 2]), (), True),
                           Value(self.graph.input("random", "i32", [4], batched=False), (), True))
        return self.random

    def state_name(self, argument):
        """The name in the module of the parameter or buffer that is this argument of the current node."""
        node = self.node.args[argument]
        name = self.names_of_state.get(getattr(node, "name", None))
        if name is None:
            raise self.refusal("computes with a statistic that is not a buffer of the module")
        return name

    def state_parameter(self, argument):
        """A buffer of the module as a parameter that is not trained."""
        name = self.state_name(argument)
        return self._parameter(ParameterUse(name, self.values[self.node.args[argument]]))

    def add_statistics(self, statistics, momentum, x):
        """Adds statistics of the batch x, (argument, value) each, to running statistics of the module."""
        if momentum is None:
            raise self.refusal("has a momentum of None: the mean over all batches")
        samples = x.id if self.is_batch(x.shape[0]) else self.emit("reshape", [x], {"dims": [-1, self.items(x.shape)]})
        for argument, value in statistics:
            self.calls.setdefault(self.state_name(argument), []).append((argument, self.node, value, momentum, samples))

    def _accumulate_statistics(self):
        """Adds to each running statistic r what its batch norm finds: r ← (1 − m) r + m v, once for each call in a step.

        Two calls are one with the momentum M = 1 − (1 − m₁) (1 − m₂) and the value (m₁ (1 − m₂) v₁ + m₂ v₂) / M.
        """
        for name, calls in self.calls.items():
            argument, node, *_, samples = calls[0]
            kept, parts = 1.0, []
            for _, _, value, momentum, _ in reversed(calls):
                parts.insert(0, (value, kept * momentum))
                kept *= 1 - momentum
            total = calls[0][2] if len(calls) == 1 else None
            for value, weight in parts if len(calls) > 1 else ():
                part = self.graph.add("scale", [value], {"factor": weight / (1 - kept) if kept < 1 else 0.0})[0]
                total = part if total is None else self.graph.add("add", [total, part])[0]
            self.parameters.add(name, "statistic", as_numbers(self.values[node.args[argument]]), 1 - kept if len(calls) > 1 else calls[0][3])
            buffer = self.graph.statistic(name, self.graph.shape(total))
            self.graph.add("accumulate", [buffer, total, samples])

    def stays_zero(self, argument, row):
        """Whether a row of a parameter, which this operation does not train, is zero and nothing else trains it."""
        node = self.node.args[argument]
        use = self.values[node]
        if not isinstance(use, ParameterUse) or bool(use.tensor[row].any()):
            return False
        same = [other for other, value in self.values.items() if isinstance(value, ParameterUse) and value.name == use.name]
        return sum(len(other.users) for other in same) == 1

    def refusal(self, sentence):
        return Refusal(f"{self.operation()} {sentence} ({self.place()})")

    def operation(self):
        return name_of(self.node)

    def place(self):
        """The layer and the line of the user's code of the current node."""
        trace = [line.strip() for line in (self.node.meta.get("stack_trace") or "").splitlines() if line.strip()]
        files = [line for line in trace if line.startswith("File") and "/torch/" not in line]
        layer = f"layer '{self.graph.scope}', " if self.graph.scope else ""
        return f"{layer}{files[-1].removeprefix('File ')}" if files else layer.rstrip(", ") or "no line is known"

    # The rest is of this class alone.

    def _needed(self, results, with_gradient=False):
        """The nodes from which some are computed, those that change one of them in place included.

        with_gradient: not those before a detach or an integer, through which no gradient passes.
        """
        roots = self.roots
        needed, changed = set(results), {roots[result] for result in results}
        for node in reversed(self.exported.graph.nodes):
            changes = is_in_place(node) and roots[node.args[0]] in changed and not self._is_counter(node)
            if node in needed or changes:
                stops = name_of(node) == "detach" or isinstance(node.meta.get("val"), torch.Tensor) and not node.meta["val"].is_floating_point()
                before = [] if with_gradient and stops else node.all_input_nodes
                needed |= {node, *before}
                changed |= {roots[other] for other in (node, *before)}
        return needed

    def _declare(self, wanted):
        self.influential = {self._name(spec.target) for spec in self.exported.graph_signature.input_specs
                            if spec.kind.name == "PARAMETER" and spec.arg.name in self.of_result}
        signature = self.exported.graph_signature
        constants = {**self.exported.constants}
        self.names_of_state, self.buffers = {}, set()
        forms = {node.name: node.meta.get("val") for node in self.exported.graph.nodes if node.op == "placeholder"}
        users = iter(self.names)
        for spec in signature.input_specs:
            kind, node_name = spec.kind.name, getattr(spec.arg, "name", None)
            node = next(n for n in self.exported.graph.nodes if n.op == "placeholder" and n.name == node_name)
            if kind == "USER_INPUT":
                name = next(users)
                if node in wanted or self.batch is None:
                    self.values[node] = self._input(name, node, forms[node_name])
            elif kind == "PARAMETER":
                name = self._name(spec.target)
                self.names_of_state[node_name] = name
                self.values[node] = ParameterUse(name, self.exported.state_dict[spec.target])
            elif kind == "BUFFER":
                name = self._name(spec.target)
                self.names_of_state[node_name] = name
                held = self.exported.state_dict if spec.target in self.exported.state_dict else constants
                if node.users:
                    self.buffers.add(name)
                self.values[node] = held[spec.target].detach().cpu()
            elif kind == "CONSTANT_TENSOR":
                self.values[node] = constants[spec.target].detach().cpu()
            else:
                raise Refusal(f"the program has an input of the kind {kind}, which Telar does not know")

    def _name(self, target):
        """The name in the module of a parameter or buffer of the program."""
        name = target.removeprefix("model.")
        return self.shared.get(name, name)

    def _input(self, name, node, form):
        integer = not form.is_floating_point()
        if integer and all(is_conversion_to_float(user) for user in node.users):
            integer = False  # the samples are converted before they reach the graph
        shape = [int(extent) if isinstance(extent, int) else extent.node.hint for extent in form.shape]
        self.inputs[name] = "i32" if integer else "f32"
        id = self.graph.input(name, self.inputs[name], shape)
        value = Value(id, tuple(form.shape), integer)
        self.given.add(id)
        if self.batch is None:
            self.batch = value
        return value

    def _host_input(self, host):
        """A value that PyTorch computes of the batch, as an input."""
        if host.name not in self.host:
            if not self._is_of_samples(host):
                return self._host_rows(host)
            integer = host.dtype in (torch.int64, torch.int32)
            shape = [self.batch.shape[0].node.hint, *host.shape[1:]]
            id = self.graph.input(host.name, "i32" if integer else "f32", shape)
            self.host[host.name] = (Value(id, host.shape, integer), host.function)
            self.inputs[host.name] = "i32" if integer else "f32"
        return self.host[host.name][0]

    def _host_rows(self, host):
        """A value of the batch that has several items for each sample in axis 0."""
        first = next((axis for axis, extent in enumerate(host.shape) if not isinstance(extent, int)), 0)
        if first and self.is_batch(host.shape[first]):
            return self._host_moved(host, first)
        rest = host.shape[1:]
        rows = None if not host.shape or isinstance(host.shape[0], int) else self.items(host.shape[:1])
        if rows is None or not all(isinstance(extent, int) for extent in rest):
            raise self.refusal(f"takes {name_of(host.node)} of the batch, whose axis 0 is not the samples")
        apart = self.from_batch(host.node, lambda value, samples: value.reshape(samples, rows, *rest), f"{rows} items for each sample",
                                (rows, *rest), host.dtype)
        return Value(self.emit("reshape", [apart], {"dims": [-1, *rest]}), host.shape, apart.integer)

    def _host_moved(self, host, axis):
        """A value of the batch that has the samples in another axis than 0."""
        rest = [extent for extent in host.shape if isinstance(extent, int)]
        if len(rest) + 1 < len(host.shape):
            raise self.refusal(f"takes {name_of(host.node)} of the batch, two of whose axes depend on the samples")
        moved = self.from_batch(host.node, lambda value, samples: value.movedim(axis, 0), f"samples of axis {axis}", rest, host.dtype)
        return permuted(self, moved, [*range(1, axis + 1), 0, *range(axis + 1, len(host.shape))])

    def _is_of_samples(self, host):
        """Whether a value of the batch can be an input of the graph."""
        return bool(host.shape) and self.is_batch(host.shape[0]) and all(isinstance(e, int) for e in host.shape[1:])

    def _of_batch(self):
        """The nodes that depend on the batch and on constants only, and whose memory nothing else changes."""
        parameters = {spec.arg.name for spec in self.exported.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
        roots, nodes = self.roots, self.exported.graph.nodes
        changes = [node for node in nodes if changes_numbers(node)]
        changed = {roots[node] for node in changes if roots[node].op == "placeholder"}
        while True:
            found = set()
            for node in nodes:
                is_input = node.op == "placeholder" and node.name not in parameters
                computed = node.op == "call_function" and node.target not in RANDOM and found.issuperset(node.all_input_nodes)
                if (is_input or computed or is_size(node)) and roots[node] not in changed:
                    found.add(node)
            by_others = {roots[node] for node in changes if node not in found} - changed
            if not by_others:
                return found
            changed |= by_others

    def _is_of_batch(self, node, in_place):
        """Whether a node needs only the batch and constants, and is not an operation of the graph.

        Views of integers are in the graph, so that a file of the model needs no PyTorch.
        """
        form = node.meta.get("val")
        if not isinstance(form, torch.Tensor) or node.target in RANDOM or (in_place and node not in self.of_batch):
            return False
        if in_place and not form.is_floating_point():
            return True
        inputs = [self.values[argument] for argument in node.all_input_nodes]
        is_number = lambda v: not self._is_of_samples(v) if isinstance(v, HostValue) else isinstance(v, Value) and v.total
        if node in self.of_batch and any(is_number(v) for v in inputs):
            return True  # what is computed with a sum over the batch
        plain_kinds = (HostValue, torch.Tensor, Uniform, Repeated, int, float, torch.SymInt)
        if not all(isinstance(v, plain_kinds) or (isinstance(v, Value) and v.id in self.given) for v in inputs):
            return False
        if not any(isinstance(v, HostValue) or isinstance(v, Value) for v in inputs):
            return not all(isinstance(extent, int) for extent in form.shape) and name_of(node) not in SHAPES_OF_NOTHING and (
                in_place or not form.is_floating_point() or name_of(node) not in TRANSLATIONS)
        if any(isinstance(v, HostValue) and (v.dtype.is_complex or not form.is_floating_point()) for v in inputs):
            return True
        return name_of(node) not in TRANSLATIONS or (not form.is_floating_point() and name_of(node) not in VIEWS
                                                    and name_of(node) not in MOVES)

    def _parameter(self, use):
        if use.name not in self.declared:
            role = "trained" if use.name in self.trained and use.name in self.influential else "fixed"
            self.parameters.add(use.name, role, as_numbers(use.tensor))
            id = self.graph.parameter(use.name, list(use.tensor.shape) or [1])
            self.declared[use.name] = Value(id, tuple(use.tensor.shape))
        return self.declared[use.name]

    def _constant(self, tensor):
        if not (tensor.is_floating_point() or tensor.dtype in (torch.bool, torch.int64, torch.int32)):
            raise self.refusal(f"has a constant of {tensor.dtype}")
        numbers = tensor.detach().to(torch.float32)
        if numbers.numel() and bool((numbers == numbers.reshape(-1)[0]).all()) and bool(numbers.isfinite().all()):
            attributes = {"shape": list(tensor.shape) or [1], "value": float(numbers.reshape(-1)[0])}
            return Value(self.emit("constant", [], attributes), tuple(tensor.shape))
        name = self.parameters.constant(numbers.cpu().numpy())
        if name not in self.declared:
            self.declared[name] = Value(self.graph.parameter(name, list(tensor.shape) or [1]), tuple(tensor.shape))
        return self.declared[name]

    def _translate(self, node):
        self.node = node
        self.graph.scope = scope_of(node)
        if node.target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]
            return
        arguments = self._resolved(node.args)
        keywords = self._resolved(node.kwargs)
        name = self.operation()
        if is_size(node) or name.startswith(("_assert", "sym_")):
            self.values[node] = node.meta.get("val")
            return
        in_place = is_in_place(node)
        if self._is_constant(node, arguments, keywords):
            self.values[node] = node.target(*arguments, **keywords)
            return
        if self._is_repeated(name, arguments):
            alone = [argument.tensor if isinstance(argument, Repeated) else argument for argument in arguments]
            self.values[node] = Repeated(node.target(*alone, **keywords), tuple(self.form().shape))
            return
        if self._is_of_batch(node, in_place):
            self._leave_to_pytorch(node)
            return
        translate = TRANSLATIONS.get(name) or (TRANSLATIONS.get(name.rstrip("_")) if in_place else None)
        if translate is None and node in self.of_batch and isinstance(self.form(), torch.Tensor):
            self._leave_to_pytorch(node)
            return
        if translate is None:
            if name.startswith("fft_") or name in ("stft", "istft"):
                raise self.refusal("is a Fourier transform, and Telar has no complex numbers; write it as products with matrices of "
                                   "cosines and sines, or use engine=\"torch\"")
            raise self.refusal("is an operation that Telar does not have; write it by others, or use engine=\"torch\"")
        self._require_terms_of_loss(name, arguments)
        named = schema_arguments(node.target, arguments, keywords)
        if name not in ("batch_norm", "instance_norm"):
            named = {key: self._used(value) for key, value in named.items()}
        if name in PROMOTING and self.form().is_floating_point():
            named = {key: self._as_float(key, value) for key, value in named.items()}
        if node not in self.of_batch and name.rstrip("_") not in TAKING_INTEGERS:
            named = torch.fx.node.map_aggregate(named, self._as_number)
        try:
            self.values[node] = translate(self, **named)
        except Refusal:
            if in_place or node not in self.of_batch or not isinstance(self.form(), torch.Tensor):
                raise
            self._leave_to_pytorch(node)
        except TypeError as error:
            if "unexpected keyword argument" not in str(error):
                raise
            raise self.refusal("has an argument that Telar does not know") from error
        self._require_form(node)
        if in_place:
            self._write_in_place(node)

    def _require_form(self, node):
        """Raises Refusal if a result has not the shape in the graph that it has in PyTorch."""
        values, forms = self.values[node], node.meta["val"]
        pairs = [(values, forms)]
        if isinstance(values, (list, tuple)):
            pairs = [(values[user.args[1]], forms[user.args[1]]) for user in node.users if user.users]
        for value, form in pairs:
            if not isinstance(value, Value):
                continue
            right = [extent if isinstance(extent, int) else extent.node.hint for extent in form.shape] or [1]
            if self.graph.shape(value.id) != right:
                raise self.refusal(f"would be {self.graph.shape(value.id)} in Telar, and is {right} in PyTorch")

    def _require_terms_of_loss(self, name, arguments):
        """Of what is summed over the samples, only multiples and sums are sums over the samples again."""
        leaves = []
        torch.fx.node.map_aggregate(arguments, leaves.append)
        totals = [leaf.total for leaf in leaves if isinstance(leaf, Value) and leaf.total]
        if totals and name.rstrip("_") not in ADDITIVE:
            raise self.refusal("is applied to a sum or mean over the samples, so the loss is not one; "
                               "apply it to the losses of the samples, before their mean")

    def _as_float(self, key, value):
        """An argument; what the batch gives as integers, as the numbers that PyTorch makes of them beside others."""
        node = self.node_of(key)
        is_integer = isinstance(value, HostValue) and not value.dtype.is_floating_point and value.dtype != torch.bool or (
            isinstance(value, Value) and value.integer)
        if not is_integer or node not in self.of_batch or not node.meta["val"].dim():
            return value
        function = HostFunction(node, self.exported, lambda numbers, samples: numbers.float(), "float", self.node)
        return HostValue(function, tuple(node.meta["val"].shape), torch.float32, node=node)

    def _as_number(self, value):
        """An argument; positions and what the batch gives as integers as numbers, with which the graph computes."""
        is_integer = isinstance(value, Value) and value.integer or (
            isinstance(value, HostValue) and value.dtype in (torch.int64, torch.int32) and self._is_of_samples(value))
        return numbers(self, value) if is_integer else value

    def _is_repeated(self, name, arguments):
        """Whether an operation of each element has constants that are repeated for each sample."""
        repeated = [argument for argument in arguments if isinstance(argument, Repeated)]
        form = self.form()
        if name not in OF_EACH_ELEMENT or not repeated or not form.shape or not self.is_batch(form.shape[0]):
            return False
        others = [argument for argument in arguments if not isinstance(argument, (Repeated, int, float))]
        fits = all(isinstance(other, torch.Tensor) and (other.dim() < form.dim() or other.shape[0] == 1) for other in others)
        return fits and all(len(one.shape) == form.dim() for one in repeated)

    def _leave_to_pytorch(self, node):
        """PyTorch computes the node of each batch. If it changes memory in place, what views that has other values from now on."""
        self.values[node] = HostValue.of_node(node, self.exported)
        for other in list(self.values) if changes_numbers(node) else ():
            if other is not node and self.roots[other] is self.roots[node] and isinstance(other.meta.get("val"), torch.Tensor):
                self.values[other] = HostValue.of_node(other, self.exported, node)

    def _require_no_state_is_changed(self):
        """Raises Refusal if the program changes a tensor of the module or the batch, which the next step would find changed."""
        names = {spec.arg.name: spec.target or "the batch" for spec in self.exported.graph_signature.input_specs}
        for node in self.exported.graph.nodes:
            if isinstance(node.kwargs.get("out"), torch.fx.Node):
                self.node = node
                held = self._name(names.get(self.roots[node.kwargs["out"]].name, "a tensor"))
                raise self.refusal(f"writes its result to '{held}' (out=), which is lost in a graph, as the vectors of spectral_norm; use "
                                   "engine=\"torch\"")
            root = self.roots[node]
            if changes_numbers(node) and root.op == "placeholder" and not root.name.endswith("num_batches_tracked"):
                self.node = node
                raise self.refusal(f"changes '{self._name(names.get(root.name, root.name))}' in place, which is lost in a graph")

    def _write_in_place(self, node):
        """The variable that an operation changes has its result from now on, and what it views has it in that place."""
        target, root = node.args[0], self.roots[node]
        written, view = {target, node}, target
        self.values[target] = self.values[node]
        while view is not root:
            base = view.args[0]
            if not is_in_place(view):
                if name_of(view) not in ("slice", "select", "alias"):
                    break  # the tensor itself must not be used again
                options = schema_arguments(view.target, view.args, view.kwargs)
                self.values[base] = replaced(self, self.value(self._used(self.values[base])), self.values[view], name_of(view), options)
            else:
                self.values[base] = self.values[view]
            written.add(base)
            view = base
        position = {other: i for i, other in enumerate(self.exported.graph.nodes)}
        for other in self.values:
            shares = other not in written and self.roots.get(other) is root and isinstance(other.meta.get("val"), torch.Tensor)
            if shares and any(position[user] > position[node] for user in other.users):
                raise self.refusal("changes a tensor in place of which a view is used later; write the result to a new tensor")

    def _is_counter(self, node):
        """Batch norms count their batches, which nothing reads."""
        target = node.args[0]
        return target.op == "placeholder" and target.name.endswith("num_batches_tracked") and len(target.users) == 1

    def _resolved(self, argument):
        return torch.fx.node.map_aggregate(argument, lambda a: self.values[a] if isinstance(a, torch.fx.Node) else a)

    def _used(self, argument):
        return torch.fx.node.map_aggregate(
            argument, lambda a: self._parameter(a) if isinstance(a, ParameterUse) else a)

    def _is_constant(self, node, arguments, keywords):
        if "random" in str(node.target) or node.target in RANDOM or not isinstance(self.form(), torch.Tensor):
            return False
        leaves = []
        torch.fx.node.map_aggregate((arguments, dict(keywords)), leaves.append)
        symbolic = any(isinstance(leaf, (Value, HostValue, Uniform, Repeated, ParameterUse, torch.SymInt, torch.SymFloat)) for leaf in leaves)
        return not symbolic and all(isinstance(extent, int) for extent in self.form().shape)


class ParameterUse:
    """A parameter of the module, before an operation uses it."""

    def __init__(self, name, tensor):
        self.name = name
        self.tensor = tensor


RANDOM = {torch.ops.aten.randn.default, torch.ops.aten.rand.default, torch.ops.aten.randint.default,
          torch.ops.aten.randn_like.default, torch.ops.aten.rand_like.default, torch.ops.aten.bernoulli.default,
          torch.ops.aten.bernoulli_.float, torch.ops.aten.dropout.default, torch.ops.aten.normal_.default,
          torch.ops.aten.uniform_.default, torch.ops.aten.randperm.default, torch.ops.aten.multinomial.default}


def scope_of(node):
    """The layer of a node by its path in the module: "layer1.0.conv1"."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return path.removeprefix("model").removeprefix(".") if path else ""
