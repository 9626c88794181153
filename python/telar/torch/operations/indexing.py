"""Positions of elements, and elements by their positions.

PyTorch's integers are i32 in the graph where they come from the batch or are positions (`order`), and numbers where an
operation has computed with them; `indices` makes the one of the other.
"""

import math
import operator

import torch

from telar.registry import Registry
from telar.torch.operations import elementwise, reductions, shaping
from telar.torch.operations.elementwise import scaled
from telar.torch.operations.reductions import axis_of_one
from telar.torch.operations.shaping import reshaped
from telar.torch.program import name_of, schema_arguments
from telar.torch.values import Repeated, Uniform, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates
MOST_PLACES = 1 << 24  # whole numbers up to it are exact in float32
SAME_POSITIONS = {"expand", "clone", "contiguous", "alias", "to", "slice"}


def indices(low, x):
    """Whole numbers as i32, which operations take as positions."""
    value = low.value(x)
    return value if value.integer else Value(low.emit("to_indices", [value]), value.shape, True)


def numbers(low, x):
    """Whole numbers as f32, with which operations compute."""
    value = low.value(x)
    return Value(low.emit("to_numbers", [value]), value.shape) if value.integer else value


def looked_up(low, table, tokens):
    """Rows of a table [K, D] by whole numbers, [..., D]."""
    places = indices(low, tokens)
    flat = places if places.rank in (1, 2) else reshaped(low, places, (math.prod(places.shape),))
    found = Value(low.emit("embedding", [flat, table]), (*flat.shape, table.shape[1]))
    return found if flat is places else reshaped(low, found, (*places.shape, table.shape[1]))


def ordered(low, value, axis, count, descending):
    """The first positions along an axis in the order of the elements."""
    shape = tuple(count if i == axis else extent for i, extent in enumerate(value.shape))
    id = low.emit("order", [value], {"axis": axis, "count": count, "descending": bool(descending)})
    return Value(id, shape, True)


def taken(low, value, places, axis):
    """Elements by their positions along an axis."""
    shape = tuple(places.shape[i] if i == axis else extent for i, extent in enumerate(value.shape))
    return Value(low.emit("gather", [value, indices(low, places)], {"axis": axis}), shape)


def added(low, places, updates, axis, extent):
    """Sums of the updates that have the same position."""
    shape = tuple(extent if i == axis else e for i, e in enumerate(updates.shape))
    return Value(low.emit("scatter_add", [indices(low, places), updates], {"axis": axis, "extent": extent}), shape)


def extreme(low, x, dim, descending):
    """The position of the first maximum or minimum along an axis."""
    value = low.value(x)
    if dim is None:
        if low.items(value.shape) is not None:
            raise low.refusal("is the position in the whole batch; give it an axis")
        value, dim = reshaped(low, value, (math.prod(value.shape),)), 0
    axis = axis_of_one(low, value, dim)
    return reshaped(low, ordered(low, value, axis, 1, descending), tuple(low.form().shape))


@translates("argmax")
def position_of_greatest(low, self, dim=None, keepdim=False):
    return extreme(low, self, dim, True)


@translates("argmin")
def position_of_least(low, self, dim=None, keepdim=False):
    return extreme(low, self, dim, False)


def uses_positions(low):
    """Whether the second result of the current node is used."""
    return any(user.args[1] == 1 and user.users for user in low.node.users)


@translates("max")
def greatest(low, self, dim=None, keepdim=False, other=None):
    values = reductions.greatest(low, self, dim, keepdim, other)
    return [values, extreme(low, self, dim, True) if uses_positions(low) else None] if dim is not None else values


@translates("min")
def least(low, self, dim=None, keepdim=False, other=None):
    values = reductions.least(low, self, dim, keepdim, other)
    return [values, extreme(low, self, dim, False) if uses_positions(low) else None] if dim is not None else values


@translates("topk")
def greatest_ones(low, self, k, dim=-1, largest=True, sorted=True):
    value = low.value(self)
    axis = axis_of_one(low, value, dim)
    places = ordered(low, value, axis, k, largest)
    return [taken(low, value, places, axis), places]


@translates("sort", "msort")
def sort(low, self, dim=-1, descending=False, stable=None):
    value = low.value(self)
    axis = axis_of_one(low, value, 0 if low.operation() == "msort" else dim)
    places = ordered(low, value, axis, value.shape[axis], descending)
    values = taken(low, value, places, axis)
    return values if low.operation() == "msort" else [values, places]


@translates("argsort")
def positions_in_order(low, self, dim=-1, descending=False, stable=None):
    value = low.value(self)
    axis = axis_of_one(low, value, dim)
    return ordered(low, value, axis, value.shape[axis], descending)


@translates("kthvalue", "median")
def one_in_order(low, self, k=None, dim=None, keepdim=False):
    """The k-th smallest element along an axis; the median is the lower one of two."""
    value = low.value(self)
    if dim is None and low.operation() == "median":
        raise low.refusal("is the median of the whole batch; give it an axis")
    axis = axis_of_one(low, value, -1 if dim is None else dim)
    count = (value.shape[axis] + 1) // 2 if k is None else k
    place = shaping.part(low, ordered(low, value, axis, count, False), axis, count - 1, count)
    both = [taken(low, value, place, axis), place]
    return both if keepdim else [reshaped(low, one, tuple(low.form().shape)) for one in both]


@translates("one_hot")
def one_hot(low, self, num_classes=-1):
    """Ones where the number is the class, else zeros."""
    if num_classes < 0:
        raise low.refusal("finds the number of classes in the batch; give it num_classes")
    value = low.value(self)
    column = reshaped(low, value, (*value.shape, 1))
    difference = elementwise.add(low, column, -torch.arange(num_classes, dtype=torch.float32))
    return elementwise.of_one(low, "within", difference, {"least": 0.0, "most": 0.0})


def index_of(low, index):
    """An index tensor; what all samples have is [1, ...]."""
    if isinstance(index, Uniform):
        return low.value(torch.full((1, *index.shape[1:]), float(index.number)))
    return low.value(index.tensor if isinstance(index, Repeated) else index)


def cut(low, value, shape, axis):
    """The first items of the other axes, as many as the index tensor has."""
    for i, extent in enumerate(shape):
        if i != axis and str(extent) != str(value.shape[i]):
            if not isinstance(extent, int) or not isinstance(value.shape[i], int) or extent > value.shape[i]:
                raise low.refusal("has an index tensor that has the samples in another axis, or takes some of them")
            value = shaping.part(low, value, i, 0, extent)
    return value


@translates("gather")
def gather(low, self, dim, index, sparse_grad=False):
    value, chosen = low.value(self), index_of(low, index)
    axis = axis_of_one(low, value, dim)
    return taken(low, cut(low, value, tuple(low.form().shape), axis), chosen, axis)


def axis_of_result(low, dim):
    axis = dim % len(low.form().shape)
    if not isinstance(low.form().shape[axis], int):
        raise low.refusal("runs along the axis of the samples, so a sample depends on others")
    return axis


@translates("scatter_add")
def scatter_add(low, self, dim, index, src):
    axis = axis_of_result(low, dim)
    sums = sums_of(low, index, src, tuple(low.form().shape), axis)
    return sums if isinstance(self, Uniform) and self.number == 0 else elementwise.add(low, self, sums)


def sums_of(low, index, src, shape, axis):
    """What scatter_add adds to a tensor of this shape. src: a tensor, or a number for each index."""
    form = low.node_of("index").meta["val"].shape
    if any(str(form[i]) != str(extent) for i, extent in enumerate(shape) if i != axis):
        raise low.refusal("has an index tensor that leaves out places of the other axes; give it their extents")
    updates = low.ones(form, float(src)) if isinstance(src, (int, float)) else cut(low, low.value(src), form, axis)
    if not isinstance(src, (int, float)) and updates.shape[axis] != form[axis]:
        updates = shaping.part(low, updates, axis, 0, form[axis])
    return added(low, index_of(low, index), updates, axis, shape[axis])


@translates("scatter")
def scatter(low, self, dim, index, src=None, value=None, reduce=None):
    """A tensor with other elements in some positions."""
    shape, axis = tuple(low.form().shape), axis_of_result(low, dim)
    written = value if src is None else src
    if reduce == "add":
        return elementwise.add(low, self, sums_of(low, index, written, shape, axis))
    if reduce is not None:
        raise low.refusal("multiplies what is there; write it with gather and where")
    if src is not None and not are_different(low.node_of("index"), axis, shape):
        raise low.refusal("may write to a position twice, and the last one counts; the positions of topk, sort and argsort along "
                          "the same axis are different ones, and scatter_add adds up what has the same position")
    counts = sums_of(low, index, 1, shape, axis)
    taken_places = elementwise.of_one(low, "clamp", counts, {"least": 0.0, "most": 1.0})
    kept = elementwise.times(low, elementwise.limited(self), elementwise.less_from_one(low, taken_places))
    new = scaled(low, taken_places, float(value)) if src is None else sums_of(low, index, src, shape, axis)
    return elementwise.add(low, kept, new)


def are_different(node, axis, shape):
    """Whether the positions along an axis are those of a sort along it, or one alone."""
    if node.meta["val"].shape[axis] == 1:
        return True
    while node.op == "call_function" and keeps_axis(node, axis):
        node = node.args[0]
    source = node.args[0] if node.target is operator.getitem else node
    if source.op != "call_function" or name_of(source) not in ("topk", "sort", "argsort"):
        return False
    dim = schema_arguments(source.target, source.args, source.kwargs)["dim"]
    return dim % len(source.args[0].meta["val"].shape) == axis


def keeps_axis(node, axis):
    """Whether the positions along an axis are some of those along the same axis of the first argument."""
    shape, name = node.meta["val"].shape, name_of(node)
    if name == "unsqueeze":
        return node.args[1] % len(shape) > axis
    before = node.args[0].meta["val"].shape if name in SAME_POSITIONS else ()
    return len(before) == len(shape) and (name == "slice" or shape[axis] == before[axis])


@translates("index_add")
def index_add(low, self, dim, index, source, alpha=1):
    """Adds items of an axis by constant indices."""
    updates = low.value(source)
    axis = axis_of_one(low, updates, dim)
    if not isinstance(index, torch.Tensor):
        raise low.refusal("has indices that depend on the samples; use scatter_add, whose index tensor has those of each sample")
    places = low.value(index.reshape(*[1] * axis, -1, *[1] * (updates.rank - axis - 1)).float())
    sums = scaled(low, added(low, places, updates, axis, low.form().shape[axis]), alpha)
    return sums if isinstance(self, Uniform) and self.number == 0 else elementwise.add(low, self, sums)


@translates("index_select")
def index_select(low, self, dim, index):
    """Items of an axis by constant indices, or rows of a table by those of samples."""
    value = low.value(self)
    axis = dim % value.rank
    if isinstance(index, torch.Tensor) and isinstance(value.shape[axis], int):
        one_hot_columns = torch.nn.functional.one_hot(index, value.shape[axis]).float().T.contiguous()
        return shaping.along(low, value, axis, one_hot_columns)
    return by_tensors(low, value, [None] * axis + [index], [None] * axis + [low.node_of("index")])


@translates("index")
def index(low, self, indices):
    nodes = low.node_of("indices")
    if any(node is not None and node.meta["val"].dtype in (torch.bool, torch.uint8) for node in nodes if isinstance(node, torch.fx.Node)):
        raise low.refusal("takes what a mask chooses, which has another size for each batch; compute with all elements, "
                          "and leave out those of no account: torch.where(mask, losses, 0).sum() / mask.sum()")
    return by_tensors(low, low.value(self), list(indices), list(nodes))


def by_tensors(low, value, chosen, nodes):
    """value[chosen...]; nodes: of the index tensors."""
    first = next(axis for axis, one in enumerate(chosen) if one is not None)
    if any(one is None for one in chosen[first:]):
        raise low.refusal("has index tensors with gaps between them; move the axes together by permute")
    axes = value.shape[first:len(chosen)]
    if all(isinstance(one, torch.Tensor) for one in chosen[first:]):
        return by_constants(low, value, first, chosen[first:], axes)
    if all(isinstance(extent, int) for extent in value.shape):
        return of_table(low, value, first, chosen[first:], axes)
    if first == 0 and low.is_batch(value.shape[0]) and are_all_samples(low, nodes[0]):
        return of_each_sample(low, value, chosen[1:], axes[1:])
    raise low.refusal("takes items of other samples, or items of an axis after that of the samples by indices of each sample; "
                      "torch.gather takes those of the same sample")


def by_constants(low, value, first, chosen, axes):
    """Items of neighbouring axes by constant indices, as a product with zeros and ones."""
    if any(not isinstance(extent, int) for extent in axes):
        raise low.refusal("takes some of the samples; each sample must be computed by itself")
    place = torch.zeros((), dtype=torch.long)
    for one, extent in zip(chosen, axes):
        place = place * extent + one % extent
    end = first + len(axes)
    together = value if len(axes) == 1 else reshaped(low, value, (*value.shape[:first], math.prod(axes), *value.shape[end:]))
    if first == 0:
        return shaping.rows(low, together, place)
    one_hot_columns = torch.nn.functional.one_hot(place.reshape(-1), math.prod(axes)).float().T.contiguous()
    return reshaped(low, shaping.along(low, together, first, one_hot_columns), tuple(low.form().shape))


def place_of(low, chosen, axes):
    """Index tensors of neighbouring axes as one, of all their places. Negative ones count from the end."""
    if math.prod(axes) > MOST_PLACES:
        raise low.refusal(f"chooses among more than {MOST_PLACES} places")
    place = None
    for one, extent in zip(chosen, axes):
        value = numbers(low, one)
        below = elementwise.of_one(low, "within", value, {"least": -elementwise.LARGEST, "most": -1.0})
        value = elementwise.of_two(low, "add", value, scaled(low, below, extent))
        place = value if place is None else elementwise.of_two(low, "add", scaled(low, place, extent), value)
    return place


def of_table(low, table, first, chosen, axes):
    """Items of a tensor without samples."""
    is_given = len(chosen) == 1 and low.value(chosen[0]).integer  # an input, whose values are checked before each step
    place = low.value(chosen[0]) if is_given else place_of(low, chosen, axes)
    end = first + len(axes)
    order = [*range(first, end), *range(first), *range(end, table.rank)]
    front = shaping.permuted(low, table, order)
    flat = reshaped(low, front, (math.prod(axes), math.prod(front.shape[len(axes):])))
    found = looked_up(low, flat, place)
    apart = reshaped(low, found, (*place.shape, *front.shape[len(axes):]))
    if first == 0:
        return apart
    rank = place.rank
    return shaping.permuted(low, apart, [*range(rank, rank + first), *range(rank), *range(rank + first, apart.rank)])


def are_all_samples(low, node):
    """Whether index tensor is arange(N), or the same with further axes of one item."""
    while isinstance(node, torch.fx.Node) and name_of(node) in ("unsqueeze", "view", "reshape", "to", "expand", "alias", "slice"):
        shape = node.meta["val"].shape
        if not low.is_batch(shape[0]) or any(not isinstance(extent, int) or extent != 1 for extent in shape[1:]):
            return False
        node = node.args[0]
    is_range = isinstance(node, torch.fx.Node) and name_of(node) == "arange"
    return is_range and low.is_batch(node.meta["val"].shape[0]) and (len(node.args) < 2 or node.args[0] == 0)


def of_each_sample(low, value, chosen, axes):
    """value[arange(N), chosen...]: items of the same sample."""
    if not chosen:
        return value
    if any(not isinstance(extent, int) for extent in axes):
        raise low.refusal("has a second axis that depends on the batch")
    place = place_of(low, chosen, axes)
    form, end = tuple(low.form().shape), 1 + len(axes)
    rest = value.shape[end:]
    together = reshaped(low, value, (value.shape[0], math.prod(axes), math.prod(rest)))
    several = form[1:len(form) - len(rest)]
    if place.rank == 0 or not low.is_batch(place.shape[0]):
        place = shaping.expanded(low, numbers(low, place), (value.shape[0], *several))
    flat = reshaped(low, place, (value.shape[0], math.prod(several), 1))
    return reshaped(low, taken(low, together, flat, 1), form)
