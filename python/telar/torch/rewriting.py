"""What a program computes of a part of the batch that a mask chooses, or of elements in another order, by other operations.

x[mask] has as many rows as the mask has ones, so its shape depends on the numbers of the batch. A loss of such rows is
that of all rows, where those that the mask leaves out add nothing: the sum of where(mask, losses, 0), divided by the number
of ones where it is a mean.
"""

import math
import operator

import torch
from torch.fx.node import map_arg

from telar.torch.operations.elementwise import TRANSLATIONS as OF_EACH_ELEMENT
from telar.torch.program import name_of, schema_arguments

aten = torch.ops.aten
SOMEWHERE = 0.5  # in the place of what is left out: its logarithm, root and inverse are finite
OF_EACH_ROW = {*OF_EACH_ELEMENT, "linear", "layer_norm", "embedding", "one_hot", "detach", "clone", "alias", "contiguous", "to", "_to_copy",
               "pairwise_distance", "broadcast_tensors", "ones_like", "zeros_like", "full_like"}
ALONG_AXES = {"softmax", "log_softmax", "logsumexp", "sum", "mean", "amax", "amin", "argmax", "argmin", "unsqueeze", "select", "squeeze",
              "slice", "gather", "linalg_vector_norm", "var", "std", "cumsum", "cosine_similarity"}
LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
          "soft_margin_loss"}
OF_LABELS = {"cross_entropy_loss", "nll_loss", "nll_loss_nd"}
NONE, MEAN = 0, 1  # PyTorch's numbers of reductions


def rewrite(program):
    """Writes such parts of a program by other operations, in place, where that is right for all batches."""
    for node in list(program.graph.nodes):
        if name_of(node) == "sum":
            sum_in_any_order(node)
    masks = {}
    for node in program.graph.nodes:
        if is_choice(node):
            masks.setdefault(node.args[1][0], []).append(node)
    for mask, choices in masks.items():
        Choice(program.graph, mask, choices).rewrite()


def sum_in_any_order(node):
    """The sum of all elements, of which a permutation is gathered, is that of the elements themselves."""
    gathered = node.args[0]
    if len(node.args) > 1 or name_of(gathered) != "gather":
        return
    x, dim, index = gathered.args[:3]
    while name_of(index) in ("to", "alias", "clone"):
        index = index.args[0]
    if index.op != "call_function" or name_of(index) != "argsort" or x.meta["val"].dim() != index.meta["val"].dim():
        return
    rank, along = x.meta["val"].dim(), schema_arguments(index.target, index.args, index.kwargs)["dim"]
    alike = [str(extent) for extent in x.meta["val"].shape] == [str(extent) for extent in index.meta["val"].shape]
    if alike and along % rank == dim % rank:
        node.args = (x,)


def is_choice(node):
    """Whether it is x[mask]."""
    if node.op != "call_function" or name_of(node) != "index" or len(node.args[1]) != 1:
        return False
    return isinstance(node.args[1][0], torch.fx.Node) and node.args[1][0].meta["val"].dtype == torch.bool


class Choice:
    """The rows that one mask chooses, and what is computed of them."""

    def __init__(self, graph, mask, choices):
        self.graph, self.mask, self.choices = graph, mask, choices
        self.chosen = set(choices)  # nodes whose axis 0 is the chosen rows
        self.ends = []  # their sums and means
        self.counts = []  # numbers of rows
        self.idle = []  # what only asserts such numbers

    def rewrite(self):
        if all(self._follow(node) for node in self._in_order()):
            self._write()

    def _in_order(self):
        """The nodes that take chosen rows, or their number; more are found while they are followed."""
        for node in self.graph.nodes:
            if node not in self.chosen and any(used in self.chosen or used in self.counts or used in self.idle for used in node.all_input_nodes):
                yield node

    def _follow(self, node):
        """Whether a node can be computed of all rows."""
        name = name_of(node)
        if any(used in self.idle or used in self.counts for used in node.all_input_nodes):
            if name == "div" and node.args[1] in self.counts:
                return node.args[0] in self.ends
            self.idle.append(node)
            return isinstance(node.meta.get("val"), (bool, torch.SymBool)) or name.startswith(("_assert", "sym_constrain"))
        if node.target is aten.sym_size.int and node.args[1] == 0:
            self.counts.append(node)
        elif name in LOSSES | OF_LABELS and self._option(node, "reduction") != NONE or name in ("sum", "mean") and self._is_of_all(node):
            self.ends.append(node)
        elif not self._has_rows_first(node):
            return False
        elif node.target is operator.getitem or name in OF_EACH_ROW | LOSSES | OF_LABELS or name in ALONG_AXES and self._leaves_rows(node):
            self.chosen.add(node)
        else:
            return False
        return True

    def _has_rows_first(self, node):
        """Whether the chosen rows are axis 0 of the result, too: not those of a weight, nor those of a vector beside a matrix."""
        name, chosen = name_of(node), [used for used in node.all_input_nodes if used in self.chosen]
        if name in ("linear", "layer_norm", "embedding"):
            return chosen == [node.args[1 if name == "embedding" else 0]]
        if name in OF_LABELS:
            return node.args[0] in chosen and node.args[1] in chosen
        if name in OF_EACH_ELEMENT.keys() | LOSSES or name == "broadcast_tensors":
            forms = [used.meta["val"] for used in node.all_input_nodes if isinstance(used.meta["val"], torch.Tensor)]
            return len({used.meta["val"].dim() for used in chosen}) == 1 and chosen[0].meta["val"].dim() == max(form.dim() for form in forms)
        return True

    def _option(self, node, name):
        return schema_arguments(node.target, node.args, node.kwargs).get(name)

    def _is_of_all(self, node):
        """Whether a sum or mean is that of all elements."""
        dim, rank = self._option(node, "dim"), node.args[0].meta["val"].dim()
        return not self._option(node, "keepdim") and (not dim or sorted(axis % rank for axis in dim) == list(range(rank)))

    def _leaves_rows(self, node):
        dim, rank = self._option(node, "dim"), node.args[0].meta["val"].dim() + (name_of(node) == "unsqueeze")
        if dim is None or dim == []:
            return False
        return all(axis % rank for axis in ([dim] if isinstance(dim, int) else dim))

    def _write(self):
        """Puts all rows in the place of the chosen ones."""
        order = {node: position for position, node in enumerate(self.graph.nodes)}
        for node in sorted([*self.chosen, *self.ends, *self.counts], key=order.get):
            if node in self.choices:
                self._take_all(node)
            elif node in self.ends:
                self._end(node)
            elif node in self.counts:
                for user in list(node.users):
                    if name_of(user) == "div":
                        self._divide(user, node)
            else:
                evaluate(node)
        for node in reversed(self.idle):
            self.graph.erase_node(node)

    def _add(self, target, *arguments, beside, keywords=None):
        """A node behind another, with its place in the module."""
        with self.graph.inserting_before(beside):
            node = self.graph.call_function(target, arguments, keywords or {})
        node.meta |= {key: beside.meta[key] for key in ("stack_trace", "nn_module_stack") if key in beside.meta}
        return evaluate(node)

    def _flat(self, x, beside):
        """The axes of the mask as one."""
        rank, form = self.mask.meta["val"].dim(), x.meta["val"]
        return x if rank == 1 else self._add(aten.reshape.default, x, [-1, *form.shape[rank:]], beside=beside)

    def _kept(self, x, other, beside):
        """x in the chosen rows, and a number in others."""
        mask, rank = self._flat(self.mask, beside), x.meta["val"].dim()
        if rank > 1:
            mask = self._add(aten.reshape.default, mask, [-1, *[1] * (rank - 1)], beside=beside)
        return self._add(aten.where.ScalarOther, mask, x, other, beside=beside)

    def _take_all(self, node):
        x = self._flat(node.args[0], node)
        form = x.meta["val"]
        all_rows = self._kept(x, SOMEWHERE if form.is_floating_point() else 0, node)
        self._replace(node, all_rows)

    def _end(self, node):
        """The sum of the chosen rows, or their mean."""
        evaluate(node)
        named = schema_arguments(node.target, node.args, node.kwargs)
        name = name_of(node)
        if name in OF_LABELS and not named["target"].meta["val"].is_floating_point():
            labels = self._kept(named["target"], named["ignore_index"], node)
            node.args = tuple(labels if argument is named["target"] else argument for argument in node.args)
            return
        is_mean = name == "mean" or named.get("reduction") == MEAN
        each = node.args[0]
        if name not in ("sum", "mean"):
            named["reduction"] = NONE
            by_name = {argument.name for argument in node.target._schema.arguments if argument.kwarg_only}
            each = self._add(node.target, *[named[key] for key in named if key not in by_name], beside=node,
                             keywords={key: named[key] for key in named if key in by_name})
        total = self._add(aten.sum.default, self._kept(each, 0.0, node), beside=node)
        if is_mean:
            items = math.prod(each.meta["val"].shape[1:])
            count = self._count(node)
            count = count if items == 1 else self._add(aten.mul.Tensor, count, items, beside=node)
            total = self._add(aten.div.Tensor, total, count, beside=node)
        self._replace(node, total)

    def _count(self, beside):
        return self._add(aten.sum.default, self._flat(self.mask, beside), beside=beside)

    def _divide(self, node, count):
        node.args = (node.args[0], self._count(node))

    def _replace(self, node, other):
        node.replace_all_uses_with(other)
        for nodes in (self.chosen, self.ends):
            if node in nodes:
                (nodes.discard if isinstance(nodes, set) else nodes.remove)(node)
        self.graph.erase_node(node)


def evaluate(node):
    """Gives a node the form of its result; the node."""
    arguments, keywords = (map_arg(given, lambda used: used.meta["val"]) for given in (node.args, node.kwargs))
    node.meta["val"] = node.target(*arguments, **keywords)
    return node
