"""Operations that move elements or choose among them."""

import torch

from telar.registry import Registry
from telar.torch.operations import elementwise
from telar.torch.operations.elementwise import scaled
from telar.torch.values import Repeated, Uniform, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates


@translates("view", "reshape", "flatten", "unflatten", "_unsafe_view", "unsqueeze", "squeeze", "view_as", "reshape_as")
def reshape(low, self, **_):
    if isinstance(self, Uniform):
        return Uniform(self.number, tuple(low.form().shape))
    return reshaped(low, low.value(self), tuple(low.form().shape))


def reshaped(low, value, shape):
    if [str(extent) for extent in value.shape] == [str(extent) for extent in shape]:
        return value
    id = low.emit("reshape", [value], {"dims": low.dims(shape)})
    if low.normalised.get(value.id) == value.rank - 1 and shape and shape[-1] == value.shape[-1]:
        low.normalised[id] = len(shape) - 1
    return Value(id, tuple(shape), value.integer, value.total)


def replaced(low, value, new, name, options):
    """The value with another part in the place of what `slice` or `select` takes of it by these options."""
    if name == "alias":
        return low.value(new)
    axis, extent = options["dim"] % value.rank, value.shape[options["dim"] % value.rank]
    whole = name == "slice" and not options["start"] and options["step"] == 1 and str(new.shape[axis]) == str(extent)
    if whole:
        return low.value(new)
    if not isinstance(extent, int):
        raise low.refusal("changes some of the samples in place; each sample must be computed by itself")
    if options.get("step", 1) != 1:
        raise low.refusal("changes every second item of an axis, or fewer, in place; write the result to a new tensor")
    if name == "select":
        begin, end = options["index"] % extent, options["index"] % extent + 1
    else:
        start = options["start"] or 0
        begin = max(start + extent, 0) if start < 0 else min(start, extent)
        end = begin + low.value(new).shape[axis]
    shape = tuple(end - begin if i == axis else e for i, e in enumerate(value.shape))
    members = [reshaped(low, low.value(new), shape)]
    members = ([part(low, value, axis, 0, begin)] if begin else []) + members
    members += [part(low, value, axis, end, extent)] if end < extent else []
    return joined(low, members, axis) if len(members) > 1 else members[0]


@translates("detach")
def detach(low, self):
    """The same numbers, through which no gradient passes; whole numbers have none."""
    return self if isinstance(self, Value) and self.integer else low.result("stop_gradient", [self])


@translates("contiguous", "clone", "alias", "lift_fresh_copy", "lift_fresh")
def same(low, self, **_):
    return self if isinstance(self, Uniform) else low.value(self)


@translates("to", "_to_copy", "type_as", "float", "long", "int", "bool")
def convert(low, self, **_):
    """Conversions between types that are one to Telar. An integer input that is only converted is f32 at once."""
    to, source = low.form().dtype, low.node_of("self").meta["val"].dtype
    if isinstance(self, Uniform):
        return self if to.is_floating_point else Uniform(float(int(self.number)), self.shape)
    value = low.value(self)
    is_of_batch = low.node in low.of_batch  # whose integers PyTorch computes
    if to in (torch.float16, torch.bfloat16, torch.float64) or (is_of_batch and value.integer != (not to.is_floating_point)):
        raise low.refusal(f"converts to {to}; Telar computes in float32 (precision='bf16' is an option of Step)")
    if to.is_floating_point:
        return Value(low.emit("to_numbers", [value]), value.shape) if value.integer else value
    if to == torch.bool and source != torch.bool:
        number = Value(low.emit("to_numbers", [value]), value.shape) if value.integer else value
        return elementwise.inverted(low, elementwise.of_one(low, "within", number, {"least": 0.0, "most": 0.0}))
    return elementwise.truncated(low, value) if source.is_floating_point else value


@translates("copy")
def copy(low, self, src, non_blocking=False):
    return expanded(low, low.value(src), tuple(low.form().shape))


@translates("fill")
def fill(low, self, value):
    shape = tuple(low.form().shape)
    return Uniform(float(value), shape) if isinstance(value, (int, float)) else expanded(low, low.value(value), shape)


@translates("zero")
def zero(low, self):
    return Uniform(0.0, tuple(low.form().shape))


@translates("permute")
def permute(low, self, dims):
    value = low.value(self)
    order = [axis % value.rank for axis in dims]
    return permuted(low, value, order)


def permuted(low, value, order):
    """Axis i of the result is axis order[i] of the value. Two permutations in line are one."""
    source, before = low.permuted.get(value.id, (value, list(range(value.rank))))
    order = [before[axis] for axis in order]
    if order == sorted(order):
        return source
    id = low.emit("transpose", [source], {"permutation": order})
    if source.id in low.normalised:
        low.normalised[id] = order.index(low.normalised[source.id])
    low.permuted[id] = (source, order)
    return Value(id, tuple(source.shape[axis] for axis in order), source.integer)


@translates("transpose", "swapaxes", "swapdims")
def transpose(low, self, dim0=None, dim1=None, axis0=None, axis1=None):
    dim0, dim1 = (axis0, axis1) if dim0 is None else (dim0, dim1)
    order = list(range(low.value(self).rank))
    a, b = dim0 % len(order), dim1 % len(order)
    order[a], order[b] = order[b], order[a]
    return permute(low, self, order)


@translates("t", "numpy_T")
def turned(low, self):
    return permute(low, self, list(range(low.value(self).rank))[::-1])


@translates("movedim", "moveaxis")
def move(low, self, source, destination):
    rank = low.value(self).rank
    sources = [axis % rank for axis in ([source] if isinstance(source, int) else source)]
    targets = [axis % rank for axis in ([destination] if isinstance(destination, int) else destination)]
    order = [axis for axis in range(rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return permute(low, self, order)


@translates("expand", "expand_as", "broadcast_to")
def expand(low, self, **_):
    shape = tuple(low.form().shape)
    if isinstance(self, Uniform):
        return Uniform(self.number, shape)
    if isinstance(self, torch.Tensor) and low.is_batch(shape[0]) and all(isinstance(extent, int) for extent in shape[1:]) and (
            self.dim() < len(shape) or self.shape[0] == 1):
        return Repeated(self.expand(1, *shape[1:]), shape)
    return expanded(low, low.value(self), shape)


def expanded(low, value, shape):
    """The value, repeated along axes of extent 1."""
    aligned = (*[1] * (len(shape) - value.rank), *value.shape)
    if len(aligned) > value.rank:
        value = reshaped(low, value, aligned)
    repeated = [i for i, extent in enumerate(aligned) if str(extent) != str(shape[i])]
    if not repeated:
        return value
    factors = tuple(extent if i in repeated else 1 for i, extent in enumerate(shape))
    return Value(low.emit("mul", [value, low.ones(factors)]), tuple(shape))


@translates("repeat")
def repeat(low, self, repeats):
    value = low.value(self)
    value = reshaped(low, value, (*[1] * (len(repeats) - value.rank), *value.shape))
    for axis, times in enumerate(repeats):
        if isinstance(times, int) and times == 1:
            continue
        if not isinstance(times, int):
            value = once_for_each_sample(low, value, axis, times)
        elif value.shape[axis] == 1:
            value = expanded(low, value, tuple(times if i == axis else e for i, e in enumerate(value.shape)))
        else:
            value = joined(low, [value] * times, axis)
    return value


def once_for_each_sample(low, value, axis, times):
    """What does not depend on the samples, as often along axis 0 as there are samples."""
    if axis or not low.is_batch(times) or not all(isinstance(extent, int) for extent in value.shape):
        raise low.refusal("repeats a tensor in another axis than the first as often as there are samples, or that of the samples")
    apart = expanded(low, reshaped(low, value, (1, *value.shape)), (low.batch.shape[0], *value.shape))
    return reshaped(low, apart, (times * value.shape[0], *value.shape[1:]))


def parts(low, value, axis, sizes):
    """Consecutive parts along an axis."""
    if not isinstance(value.shape[axis], int):
        raise low.refusal("takes samples apart; each sample must be computed by itself")
    shapes = [tuple(size if i == axis else extent for i, extent in enumerate(value.shape)) for size in sizes]
    if len(sizes) == 1:
        return [value]
    ids = low.emit("split", [value], {"axis": axis, "sizes": list(sizes)}, which=None)
    if low.normalised.get(value.id, axis) != axis:
        low.normalised |= dict.fromkeys(ids, low.normalised[value.id])
    return [Value(id, shape, value.integer) for id, shape in zip(ids, shapes)]


def part(low, value, axis, begin, end):
    """Items [begin, end) of an axis."""
    sizes = [size for size in (begin, end - begin, value.shape[axis] - end) if size]
    return parts(low, value, axis, sizes)[1 if begin else 0]


@translates("slice", "narrow")
def slice_of(low, self, dim=0, start=None, end=None, step=1, length=None):
    value = low.value(self)
    axis = dim % value.rank
    extent = value.shape[axis]
    begin = 0 if start is None else start
    stop = begin + length if length is not None else end
    whole = begin == 0 and (stop is None or str(stop) == str(extent) or (isinstance(stop, int) and stop >= 2**31))
    if whole and step == 1:
        return value
    if not isinstance(extent, int):
        raise low.refusal("takes some of the samples; each sample must be computed by itself")
    begin = min(begin + extent if begin < 0 else begin, extent)
    stop = extent if stop is None else min(stop + extent if stop < 0 else stop, extent)
    if stop <= begin:
        return Uniform(0.0, tuple(low.form().shape))
    return every(low, part(low, value, axis, begin, stop), axis, step)


def every(low, value, axis, step):
    """Each step-th item of an axis, from the first."""
    extent = value.shape[axis]
    if step == 1 or extent == 1:
        return value
    whole = extent // step
    chosen = []
    if whole:
        apart = (*value.shape[:axis], whole, step, *value.shape[axis + 1:])
        first = part(low, reshaped(low, part(low, value, axis, 0, whole * step), apart), axis + 1, 0, 1)
        chosen.append(reshaped(low, first, (*value.shape[:axis], whole, *value.shape[axis + 1:])))
    if extent % step:
        chosen.append(part(low, value, axis, whole * step, whole * step + 1))
    return joined(low, chosen, axis) if len(chosen) > 1 else chosen[0]


@translates("select")
def select(low, self, dim, index):
    value = low.value(self)
    axis = dim % value.rank
    if not isinstance(value.shape[axis], int):
        raise low.refusal("takes one of the samples; each sample must be computed by itself")
    index %= value.shape[axis]
    return reshaped(low, part(low, value, axis, index, index + 1), tuple(low.form().shape))


@translates("split", "split_with_sizes", "chunk", "tensor_split")
def split(low, self, dim=0, **_):
    value = low.value(self)
    axis = dim % value.rank
    return parts(low, value, axis, [part.shape[axis] for part in low.node.meta["val"]])


@translates("unbind")
def unbind(low, self, dim=0):
    value = low.value(self)
    axis = dim % value.rank
    shape = tuple(extent for i, extent in enumerate(value.shape) if i != axis)
    return [reshaped(low, one, shape) for one in parts(low, value, axis, [1] * value.shape[axis])]


def joined(low, values, axis):
    first = values[0]
    extent = sum(value.shape[axis] for value in values)
    shape = tuple(extent if i == axis else e for i, e in enumerate(first.shape))
    return Value(low.emit("concat", values, {"axis": axis}), shape, first.integer)


@translates("cat", "concat", "concatenate")
def concatenate(low, tensors, dim=0):
    values = [low.value(tensor) for tensor in tensors if not is_empty(tensor)]
    axis = dim % values[0].rank
    if not isinstance(values[0].shape[axis], int):
        raise low.refusal("joins batches along the axis of the samples, so one result has several samples; "
                          "call the module once for each of them")
    return joined(low, values, axis) if len(values) > 1 else values[0]


def is_empty(tensor):
    """PyTorch leaves out tensors of shape [0], whatever the others have; caches begin as such."""
    return isinstance(tensor, (torch.Tensor, Uniform)) and 0 in tuple(tensor.shape)


@translates("stack")
def stack(low, tensors, dim=0):
    values = [low.value(tensor) for tensor in tensors]
    axis = dim % (values[0].rank + 1)
    shape = (*values[0].shape[:axis], 1, *values[0].shape[axis:])
    return joined(low, [reshaped(low, value, shape) for value in values], axis)


@translates("roll")
def roll(low, self, shifts, dims=()):
    value = low.value(self)
    for shift, dim in zip(shifts, dims):
        axis = dim % value.rank
        first = (-shift) % value.shape[axis]
        if first:
            before, after = parts(low, value, axis, [first, value.shape[axis] - first])
            value = joined(low, [after, before], axis)
    return value


@translates("pad", "constant_pad_nd")
def pad(low, self, pad, mode="constant", value=None):
    if mode != "constant":
        return padded_by_itself(low, self, pad, mode)
    result = low.value(self)
    for i in range(len(pad) // 2):
        axis = result.rank - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        if before < 0 or after < 0:
            result = part(low, result, axis, max(-before, 0), result.shape[axis] - max(-after, 0))
        border = [low.ones(tuple(n if j == axis else e for j, e in enumerate(result.shape)), float(value or 0.0))
                  if n > 0 else None for n in (before, after)]
        members = [member for member in (border[0], result, border[1]) if member is not None]
        result = joined(low, members, axis) if len(members) > 1 else result
    return result


@translates("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def padded_at_edges(low, self, padding):
    return padded_by_itself(low, self, padding, "reflect" if low.operation().startswith("reflection") else "replicate")


def padded_by_itself(low, x, pad, mode):
    """Axes one after the other, as a product with zeros and ones: what the operation makes of the unit matrix."""
    result = low.value(x)
    for i in range(len(pad) // 2):
        axis = result.rank - 1 - i
        if any(pad[2 * i:2 * i + 2]):
            eye = torch.eye(result.shape[axis]).unsqueeze(0)
            result = along(low, result, axis, torch.nn.functional.pad(eye, tuple(pad[2 * i:2 * i + 2]), mode=mode)[0])
    return result


def rows(low, table, chosen):
    """table[chosen], for constant indices; table: [K, ...] without samples."""
    if not isinstance(table.shape[0], int):
        raise low.refusal("takes some of the samples; each sample must be computed by itself")
    extent = table.shape[0]
    flat = chosen.reshape(-1) % extent
    shape = (*chosen.shape, *table.shape[1:])
    first = int(flat[0])
    if bool((flat == torch.arange(first, first + flat.numel())).all()):
        return reshaped(low, part(low, table, 0, first, first + flat.numel()), shape)
    one_hot = torch.nn.functional.one_hot(flat, extent).float()
    matrix = reshaped(low, table, (extent, product(table.shape[1:])))
    product_id = low.emit("matmul", [one_hot, matrix], {"transpose_a": False, "transpose_b": False})
    return reshaped(low, Value(product_id, (flat.numel(), matrix.shape[1])), shape)


def product(extents):
    result = 1
    for extent in extents:
        result *= extent
    return result


@translates("pixel_shuffle")
def pixel_shuffle(low, self, upscale_factor):
    value, r = low.value(self), upscale_factor
    n, c, h, w = value.shape
    apart = reshaped(low, value, (n, c // (r * r), r, r, h, w))
    order = [0, 1, 4, 2, 5, 3]
    return reshaped(low, permuted(low, apart, order), tuple(low.form().shape))


def along(low, value, axis, matrix):
    """The items of an axis, combined linearly: matrix is a constant, [extent, new extent]."""
    order = [*[i for i in range(value.rank) if i != axis], axis]
    last = permuted(low, value, order)
    flat = reshaped(low, last, (-1, value.shape[axis]))
    id = low.emit("matmul", [flat, matrix], {"transpose_a": False, "transpose_b": False})
    back = reshaped(low, Value(id, (-1, matrix.shape[1])), (*last.shape[:-1], matrix.shape[1]))
    return permuted(low, back, [order.index(i) for i in range(value.rank)])


@translates("triu", "tril")
def triangle(low, self, diagonal=0):
    value = low.value(self)
    ones = torch.ones(value.shape[-2], value.shape[-1])
    return low.result("mul", [value, ones.triu(diagonal) if low.operation() == "triu" else ones.tril(diagonal)])


@translates("diagonal")
def diagonal(low, self, offset=0, dim1=0, dim2=1):
    """Of two axes as one, the places of the diagonal."""
    value = low.value(self)
    first, second = dim1 % value.rank, dim2 % value.rank
    rest = [axis for axis in range(value.rank) if axis not in (first, second)]
    last = permuted(low, value, [*rest, first, second])
    rows, columns = last.shape[-2:]
    together = reshaped(low, last, (*last.shape[:-2], rows * columns))
    places = torch.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    return along(low, together, len(rest), torch.nn.functional.one_hot(places, rows * columns).float().T.contiguous())


@translates("unfold")
def windows(low, self, dimension, size, step):
    """Windows of an axis, as a new last axis."""
    value = low.value(self)
    axis = dimension % value.rank
    places = torch.arange(value.shape[axis]).unfold(0, size, step)
    one_hot = torch.nn.functional.one_hot(places.reshape(-1), value.shape[axis]).float().T.contiguous()
    apart = reshaped(low, along(low, value, axis, one_hot), (*value.shape[:axis], *places.shape, *value.shape[axis + 1:]))
    return permuted(low, apart, [*[i for i in range(value.rank + 1) if i != axis + 1], axis + 1])


@translates("im2col")
def columns_of_images(low, self, kernel_size, dilation, padding, stride):
    """A convolution of each channel whose filters have a single one."""
    value, form = low.value(self), tuple(low.form().shape)
    channels, size = value.shape[1], kernel_size[0] * kernel_size[1]
    filters = torch.eye(size).reshape(size, 1, *kernel_size).repeat(channels, 1, 1, 1)
    options = {"stride": list(stride), "padding": list(padding), "dilation": list(dilation), "groups": channels}
    sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1
             for n, p, d, k, s in zip(value.shape[2:], padding, dilation, kernel_size, stride)]
    found = Value(low.emit("conv2d", [value, filters, None], options), (value.shape[0], channels * size, *sizes))
    return reshaped(low, found, form)


@translates("flip")
def flip(low, self, dims):
    value = low.value(self)
    for dim in dims:
        axis = dim % value.rank
        if not isinstance(value.shape[axis], int):
            raise low.refusal("turns the order of the samples")
        value = along(low, value, axis, torch.eye(value.shape[axis]).flip(0))
    return value


@translates("pixel_unshuffle")
def pixel_unshuffle(low, self, downscale_factor):
    value, r = low.value(self), downscale_factor
    n, c, h, w = value.shape
    apart = reshaped(low, value, (n, c, h // r, r, w // r, r))
    return reshaped(low, permuted(low, apart, [0, 1, 3, 5, 2, 4]), tuple(low.form().shape))


@translates("upsample_nearest1d", "upsample_linear1d")
def upsample_row(low, input, output_size=None, align_corners=None, scale_factors=None, **_):
    """By what the operation makes of the unit matrix."""
    value = low.value(input)
    operation = getattr(torch.ops.aten, low.operation()).default
    options = [] if align_corners is None else [align_corners]
    eye = torch.eye(value.shape[2]).unsqueeze(1)
    return along(low, value, 2, operation(eye, [low.form().shape[2]], *options, *(scale_factors or [None])).squeeze(1))


@translates("upsample_nearest2d")
def upsample(low, input, output_size=None, scale_factors=None, **_):
    value = low.value(input)
    n, c, h, w = value.shape
    height, width = low.form().shape[2:]
    if height % h or width % w:
        return resized(low, value, lambda eye, size: torch.nn.functional.interpolate(eye, size=size, mode="nearest"))
    apart = reshaped(low, value, (n, c, h, 1, w, 1))
    factors = low.ones((1, 1, 1, height // h, 1, width // w))
    repeated = Value(low.emit("mul", [apart, factors]), (n, c, h, height // h, w, width // w))
    return reshaped(low, repeated, (n, c, height, width))


@translates("upsample_bilinear2d", "upsample_bicubic2d")
def upsample_smoothly(low, input, output_size=None, align_corners=False, scale_factors=None, **_):
    """Both axes one after the other; the weights of one are what the operation makes of the unit matrix."""
    operation = getattr(torch.ops.aten, low.operation()).default
    scales = scale_factors or (None, None)

    def one_axis(eye, size):
        return operation(eye, list(size), align_corners, *[s if n > 1 else None for s, n in zip(scales, size)])

    return resized(low, low.value(input), one_axis)


def resized(low, value, resize):
    """resize(images [M, 1, H, W], size), which is linear and separable, by its weights along each axis."""
    height, width = low.form().shape[2:]
    for axis, size in ((2, (height, 1)), (3, (1, width))):
        extent = value.shape[axis]
        images = torch.eye(extent).reshape(extent, 1, *((extent, 1) if axis == 2 else (1, extent)))
        value = along(low, value, axis, resize(images, size).reshape(extent, -1))
    return value


@translates("glu")
def gated(low, self, dim=-1):
    value = low.value(self)
    axis = dim % value.rank
    first, gate = parts(low, value, axis, [value.shape[axis] // 2] * 2)
    return low.result("mul", [first, Value(low.emit("sigmoid", [gate]), gate.shape)])


@translates("diff")
def difference(low, self, n=1, dim=-1, prepend=None, append=None):
    value = low.value(self)
    axis = dim % value.rank
    later = part(low, value, axis, 1, value.shape[axis])
    return low.result("add", [later, scaled(low, part(low, value, axis, 0, value.shape[axis] - 1), -1)])
