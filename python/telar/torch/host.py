"""What a program computes of its batch alone, without parameters, and Telar does not have: PyTorch computes it.

Comparisons of tokens, masks, one-hot labels, the number of labels that count: such values are inputs of the graph. They
are computed of the whole batch, before it is divided, so they are right whatever they do.
"""

import hashlib

import torch

from telar.torch.program import changes_numbers, is_size, needed_until
from telar.torch.values import samples_of


class HostValue:
    """A value that a function computes of the batch.

    name: of the graph's input that it becomes where an operation takes it. node: that it is the result of, or None.
    """

    def __init__(self, function, shape, dtype, title="of_batch", node=None):
        self.function, self.shape, self.dtype, self.node = function, shape, dtype, node
        self.name = f"{title}_{function.key}"

    @classmethod
    def of_node(cls, node, program, last=None):
        """The value of a node; last: the node after which, if its memory is changed in place."""
        form = node.meta["val"]
        return cls(HostFunction(node, program, last=last), tuple(form.shape), form.dtype, node=node)


class HostFunction:
    """Computes a node of a program from a batch.

    then: a function of (value, number of samples) for what is made of it; named: says in words which one. last: the last node
    of the program that may have changed its memory in place; the node itself by default.
    """

    def __init__(self, node, program, then=None, named="", last=None):
        self.then = then
        self.extents = {}  # numbers that depend on the number of samples: name -> expression
        signature = program.graph_signature
        users = {name: position for position, name in enumerate(signature.user_inputs)}
        held = program.constants | program.state_dict
        targets = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target is not None}
        self.positions, self.held = {}, {}
        self.graph, copies = torch.fx.Graph(), {}
        wanted = needed_until(node, last or node, program.graph)
        self.is_pure = not any(changes_numbers(other) for other in wanted)
        for other in program.graph.nodes:
            if other not in wanted:
                continue
            if is_size(other):
                copies[other] = self._extent(other)
                continue
            copies[other] = self.graph.node_copy(other, copies.__getitem__)
            if other.op == "placeholder" and other.name in users:
                self.positions[other.name] = users[other.name]
            elif other.op == "placeholder":
                self.held[other.name] = held[targets[other.name]].detach()
        self.graph.output(copies[node])
        self.key = hashlib.sha256((self._text() + named).encode()).hexdigest()[:10]
        self.module = torch.fx.GraphModule(torch.nn.Module(), self.graph)

    def __call__(self, batch):
        """The value for a batch, or None if a tensor that it needs is not given."""
        if any(position >= len(batch) or batch[position] is None for position in self.positions.values()):
            return None
        arguments = [self._argument(n.name, batch) for n in self.graph.nodes if n.op == "placeholder"]
        with torch.no_grad():
            value = self.module(*arguments)
            if self.then is not None:
                value = self.then(value, samples_of(batch))
        return value.float() if value.dtype == torch.bool else value

    def _text(self):
        """What it computes, whatever the names of its nodes, which differ between training and evaluation."""
        numbers, lines = {}, []
        for n in self.graph.nodes:
            numbers[n] = f"%{len(numbers)}"
            if n.name in self.held:
                lines.append(hashlib.sha256(self.held[n.name].cpu().numpy().tobytes()).hexdigest())
            elif n.op == "placeholder":
                lines.append(f"input {self.positions.get(n.name)} {self.extents.get(n.name)}")
            else:
                lines.append(f"{n.op} {n.target} {torch.fx.node.map_arg((n.args, n.kwargs), numbers.get)}")
        return "\n".join(lines)

    def _extent(self, node):
        """A number that depends on the number of samples, or none at all: a constant, or an input of the function."""
        value = node.meta["val"]
        if isinstance(value, (int, float)):
            return value
        placeholder = self.graph.placeholder(node.name)
        self.extents[placeholder.name] = value.node.expr
        return placeholder

    def _argument(self, name, batch):
        if name in self.extents:
            expression = self.extents[name]
            number = expression.subs(dict.fromkeys(expression.free_symbols, samples_of(batch)))
            return int(number) if number.is_Integer else float(number)
        tensor = batch[self.positions[name]].detach() if name in self.positions else self.held[name]
        return tensor if self.is_pure else tensor.clone()
