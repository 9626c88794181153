"""Operations that Telar does not have, as PyTorch writes them by others."""

import operator

import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_flatten, tree_unflatten

from telar.torch.operations import TRANSLATIONS
from telar.torch.program import is_in_place, is_size, name_of

UNKNOWN = {operation: decompose for operation, decompose in decomposition_table.items()
           if isinstance(operation, torch._ops.OpOverload) and operation.name().split("::")[-1].split(".")[0] not in TRANSLATIONS}


def decompose(program):
    """Writes, in place, what depends on parameters and has no translation by operations that have one, where PyTorch can."""
    parameters = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
    depends = set()
    for node in list(program.graph.nodes):
        if node.name in parameters or depends.intersection(node.all_input_nodes):
            depends.add(node)
        if is_unknown(node) and (node in depends or name_of(node) == "broadcast_tensors"):  # some of whose results depend on the batch alone
            replace(program.graph, node, depends)


def is_unknown(node):
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and not is_size(node) and not is_in_place(
        node) and name_of(node) not in TRANSLATIONS and not name_of(node).startswith(("_assert", "sym_"))


def replace(graph, node, depends):
    """Puts the operations of which a node is made in its place, unless Telar lacks one of these, too."""
    flat, form = tree_flatten((node.args, node.kwargs))
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.fx.Node)]

    def compute(*tensors):
        arguments = list(flat)
        for place, tensor in zip(places, tensors):
            arguments[place] = tensor
        positional, keywords = tree_unflatten(arguments, form)
        return node.target(*positional, **keywords)

    try:
        parts = make_fx(compute, decomposition_table=UNKNOWN)(*[flat[place].meta["val"] for place in places]).graph
    except Exception:  # PyTorch cannot trace it apart, so it stays what it is, and is refused by its own name
        return
    if any(is_unknown(part) or part.op == "get_attr" for part in parts.nodes):
        return
    copies = dict(zip((part for part in parts.nodes if part.op == "placeholder"), (flat[place] for place in places)))
    with graph.inserting_before(node):
        for part in parts.nodes:
            if part.op == "call_function":
                copies[part] = graph.node_copy(part, copies.__getitem__)
                copies[part].meta |= {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
                if depends.intersection(copies[part].all_input_nodes):
                    depends.add(copies[part])
    results = map_arg(next(part for part in parts.nodes if part.op == "output").args[0], copies.__getitem__)
    if isinstance(results, torch.fx.Node):
        node.replace_all_uses_with(results)
    for user in list(node.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)
