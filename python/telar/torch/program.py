"""Questions about a program of torch.export: which memory its nodes view, and what they depend on."""

import operator

import torch

VIEWS = {"view", "reshape", "flatten", "unsqueeze", "squeeze", "permute", "transpose", "t", "expand", "slice", "select", "split",
         "split_with_sizes", "chunk", "unbind", "alias", "narrow", "contiguous", "detach", "detach_", "view_as", "reshape_as", "expand_as",
         "unflatten", "movedim", "swapaxes", "numpy_T", "diagonal"}
CONVERSIONS = {"to", "type_as", "float", "_to_copy"}


def name_of(node):
    """The name of an operation of ATen, without its overload."""
    return str(node.target).removeprefix("aten.").split(".")[0]


def is_in_place(node):
    """Whether it changes its first argument."""
    name = name_of(node)
    return node.op == "call_function" and name.endswith("_") and not name.endswith("__")


def changes_numbers(node):
    """Whether it changes the numbers of its first argument; torch.tensor() ends in a detach_, which does not."""
    return is_in_place(node) and name_of(node) != "detach_"


def moves_statistics(node):
    """Whether it is a batch norm that changes running statistics."""
    return node.op == "call_function" and name_of(node) == "batch_norm" and node.args[3] is not None and node.args[5] is True


def is_size(node):
    """Whether its value is a number that depends on the extents of tensors only."""
    return node.op == "call_function" and node.target is not operator.getitem and (
        node.target in (torch.ops.aten.sym_size.int, torch.ops.aten.sym_numel.default)
        or not isinstance(node.target, torch._ops.OpOverload))


def is_conversion_to_float(node):
    return node.op == "call_function" and name_of(node) in CONVERSIONS and "val" in node.meta and node.meta["val"].is_floating_point()


def may_view(node):
    """Whether its result may be memory of its first argument."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    if name_of(node) in CONVERSIONS:  # one to the same type gives the tensor itself
        return node.meta["val"].dtype == node.args[0].meta["val"].dtype
    if node.target is operator.getitem:
        return name_of(node.args[0]) in VIEWS  # other results of several tensors have memory of their own
    return name_of(node) in VIEWS or is_in_place(node)


def roots_of(graph):
    """For each node, the one whose memory it may view."""
    roots = {}
    for node in graph.nodes:
        roots[node] = roots[node.args[0]] if may_view(node) else node
    return roots


def needed_of(nodes):
    """The nodes from which these are computed, and they themselves. Numbers of extents need nothing."""
    wanted, todo = set(), list(nodes)
    while todo:
        one = todo.pop()
        if one not in wanted:
            wanted.add(one)
            todo += [] if is_size(one) else one.all_input_nodes
    return wanted


def needed_until(node, last, graph):
    """What a node is computed from, with what changes that memory in place up to another node, which is the last."""
    roots, changes = roots_of(graph), []
    for other in graph.nodes:
        if changes_numbers(other):
            changes.append(other)
        if other is last:
            break
    wanted = needed_of([node])
    while True:
        memory = {roots[other] for other in wanted}
        more = [change for change in changes if change not in wanted and roots[change] in memory]
        if not more:
            return wanted
        wanted |= needed_of(more)


def schema_arguments(target, arguments, keywords):
    """The arguments by the names of the operation's schema, with its defaults."""
    named = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(arguments):
            named[argument.name] = arguments[position]
        elif argument.name in keywords:
            named[argument.name] = keywords[argument.name]
        elif argument.has_default_value():
            named[argument.name] = argument.default_value
    return named
