"""What a program computes of its batch alone, without parameters, and Telar does not have: PyTorch computes it.

Comparisons of tokens, masks, one-hot labels, the number of labels that count: such values are inputs of the graph. They
are computed of the whole batch, before it is divided, so they are right whatever they do.
"""

import hashlib

import torch


class HostValue:
    """A value that a function computes of the batch.

    name: of the graph's input that it becomes where an operation takes it. node: that it is the result of, or None.
    """

    def __init__(self, function, shape, dtype, title="of_batch", node=None):
        self.function, self.shape, self.dtype, self.node = function, shape, dtype, node
        self.name = f"{title}_{function.key}"

    @classmethod
    def of_node(cls, node, program):
        form = node.meta["val"]
        return cls(HostFunction(node, program), tuple(form.shape), form.dtype, node=node)


class HostFunction:
    """Computes a node of a program from a batch.

    then: a function of (value, number of samples) for what is made of it; named: says in words which one.
    """

    def __init__(self, node, program, then=None, named=""):
        self.then = then
        signature = program.graph_signature
        users = {name: position for position, name in enumerate(signature.user_inputs)}
        held = program.constants | program.state_dict
        targets = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target is not None}
        self.positions, self.held = {}, {}
        self.graph, copies = torch.fx.Graph(), {}
        wanted = needed_of(node)
        for other in program.graph.nodes:
            if other not in wanted:
                continue
            copies[other] = self.graph.node_copy(other, copies.__getitem__)
            if other.op == "placeholder" and other.name in users:
                self.positions[other.name] = users[other.name]
            elif other.op == "placeholder":
                self.held[other.name] = held[targets[other.name]].detach()
        self.graph.output(copies[node])
        text = "\n".join(f"{n.op} {n.target} {n.args} {n.kwargs}" for n in self.graph.nodes if n.op != "placeholder")
        text += repr(sorted(self.positions.items())) + named
        text += "".join(hashlib.sha256(t.cpu().numpy().tobytes()).hexdigest() for t in self.held.values())
        self.key = hashlib.sha256(text.encode()).hexdigest()[:10]
        self.module = torch.fx.GraphModule(torch.nn.Module(), self.graph)

    def __call__(self, batch):
        """The value for a batch, or None if a tensor that it needs is not given."""
        if any(position >= len(batch) for position in self.positions.values()):
            return None
        arguments = [batch[self.positions[n.name]].detach() if n.name in self.positions else self.held[n.name]
                     for n in self.graph.nodes if n.op == "placeholder"]
        with torch.no_grad():
            value = self.module(*arguments)
            if self.then is not None:
                value = self.then(value, len(batch[0]))
        return value.float() if value.dtype == torch.bool else value


def needed_of(node):
    wanted, todo = set(), [node]
    while todo:
        one = todo.pop()
        if one not in wanted:
            wanted.add(one)
            todo += one.all_input_nodes
    return wanted
