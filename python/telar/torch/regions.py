"""What a program computes within torch.no_grad(), torch.enable_grad() and torch.autocast(enabled=False).

PyTorch's export makes a program of its own of each such region. Its operations are put in the place of the call.
"""

import operator

import torch

from telar.torch.program import changes_numbers, roots_of
from telar.torch.values import Refusal

GRADIENT, AUTOCAST = torch.ops.higher_order.wrap_with_set_grad_enabled, torch._higher_order_ops.wrap.wrap_with_autocast


def inline(graph, owner):
    """Puts the operations of regions into a graph, in place. owner: the module that has the regions' programs by name."""
    for node in list(graph.nodes):
        if node.target not in (GRADIENT, AUTOCAST):
            continue
        if node.target is AUTOCAST and node.args[2]:
            raise Refusal("torch.autocast in the module or the loss changes the precision of a part; Telar computes in float32, and with "
                          "precision=\"bf16\" of Step all products and convolutions in bf16")
        with_gradient = node.target is AUTOCAST or node.args[0]
        program, *arguments = node.args[4 if node.target is AUTOCAST else 1:]
        region = getattr(owner, program.target)
        inline(region.graph, region)
        replace(graph, node, region.graph, arguments, with_gradient)
        if not program.users:
            graph.erase_node(program)


def replace(graph, node, region, arguments, with_gradient):
    """Puts a region's operations in the place of its call."""
    roots = roots_of(region)
    copies = dict(zip((inner for inner in region.nodes if inner.op == "placeholder"), arguments))
    given = set(copies)
    with graph.inserting_before(node):
        for inner in region.nodes:
            if inner.op != "call_function":
                continue
            if not with_gradient and changes_numbers(inner) and roots[inner] in given and copies[roots[inner]].op != "placeholder":
                raise Refusal(f"{inner.target} changes a tensor in place within torch.no_grad(), which its gradient does not see; write the "
                              "result to a new tensor")
            copies[inner] = graph.node_copy(inner, copies.__getitem__)
        (results,) = next(inner for inner in region.nodes if inner.op == "output").args
        found = [result if result in given or with_gradient else detached(graph, copies[result]) for result in results]
        found = [copies.get(result, result) for result in found]
    for user in list(node.users):
        if user.target is not operator.getitem:
            raise Refusal("a region of torch.no_grad() has a result that Telar does not know")
        user.replace_all_uses_with(found[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def detached(graph, value):
    result = graph.call_function(torch.ops.aten.detach.default, (value,))
    result.meta |= {key: value.meta[key] for key in ("val", "stack_trace", "nn_module_stack") if key in value.meta}
    return result
