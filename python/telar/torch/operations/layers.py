"""Operations with weights, pooling, normalisation and attention."""

import torch

from telar.registry import Registry
from telar.torch.operations import elementwise, indexing, shaping
from telar.torch.operations.elementwise import scaled
from telar.torch.operations.random import dropped
from telar.torch.operations.shaping import reshaped
from telar.torch.program import name_of
from telar.torch.values import Repeated, Uniform, Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates


def pair(numbers):
    """One number for both axes, or two."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return numbers * 2 if len(numbers) == 1 else numbers


@translates("linear")
def linear(low, input, weight, bias=None):
    x, form = low.value(input), tuple(low.form().shape)
    if x.rank == 2:
        return low.result("linear", [x, weight, bias])
    flat = reshaped(low, x, (-1, x.shape[-1]))
    return reshaped(low, Value(low.emit("linear", [flat, weight, bias]), (-1, form[-1])), form)


@translates("addmm")
def addmm(low, self, mat1, mat2, beta=1, alpha=1):
    product = matmul(low, mat1, mat2)
    return low.result("add", [scaled(low, product, alpha), scaled(low, self, beta)])


@translates("matmul", "mm", "bmm", "mv", "dot")
def matmul(low, self, other=None, mat2=None, vec=None, tensor=None):
    a, b = low.value(self), low.value(next(x for x in (other, mat2, vec, tensor) if x is not None))
    plain = {"transpose_a": False, "transpose_b": False}
    if a.rank == 1 or b.rank == 1:
        return times_vector(low, a, b)
    if b.rank == 2 and a.rank > 2:
        flat = reshaped(low, a, (-1, a.shape[-1]))
        return reshaped(low, Value(low.emit("matmul", [flat, b], plain), (-1, b.shape[-1])), tuple(low.form().shape))
    leading = tuple(low.form().shape[:-2])
    if len(leading) > 2:  # as one axis
        a, b = (shaping.expanded(low, x, (*leading, *x.shape[-2:])) for x in (a, b))
        a, b = (reshaped(low, x, (shaping.product(leading), *x.shape[-2:])) for x in (a, b))
        product = Value(low.emit("matmul", [a, b], plain), (*a.shape[:-1], b.shape[-1]))
        return reshaped(low, product, tuple(low.form().shape))
    a = shaping.expanded(low, a, (*leading, *a.shape[-2:]))
    b = shaping.expanded(low, b, (*leading, *b.shape[-2:]))
    return low.result("matmul", [a, b], plain)


def times_vector(low, a, b):
    """A vector and a matrix, or two vectors, as sums of products along the axis that both have."""
    form = tuple(low.form().shape)
    if b.rank == 1:
        product = elementwise.times(low, a, b)
        axis = product.rank - 1
    else:
        product, axis = elementwise.times(low, b, reshaped(low, a, (a.shape[0], 1))), b.rank - 2
    if not isinstance(product.shape[axis], int):
        raise low.refusal("adds up the samples, so a sample depends on others")
    return Value(low.emit("reduce_sum", [product], {"axes": [axis], "keep_dims": False}), form)


@translates("baddbmm")
def baddbmm(low, self, batch1, batch2, beta=1, alpha=1):
    product = matmul(low, batch1, batch2)
    return low.result("add", [scaled(low, product, alpha), scaled(low, self, beta)])


def window(stride, padding, dilation, groups):
    return {"stride": pair(stride), "padding": pair(padding), "dilation": pair(dilation), "groups": groups}


@translates("conv2d")
def conv2d(low, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    padding = padding_of(low, padding, low.value(weight).shape[2:], pair(stride), pair(dilation))
    if not isinstance(groups, int):
        return conv2d_of_samples(low, low.value(input), low.value(weight), bias, window(stride, padding, dilation, groups))
    return low.result("conv2d", [input, weight, bias], window(stride, padding, dilation, groups))


def conv2d_of_samples(low, x, weight, bias, options):
    """A convolution in which each sample has filters of its own, as groups: products of filters and windows."""
    form, groups, (out, channels, *kernel) = tuple(low.form().shape), options["groups"], weight.shape
    size, out = shaping.product(kernel), of_each_group(low, out, groups)
    images = reshaped(low, x, (groups, channels, *x.shape[2:]))
    single = one_of_window(channels, kernel)
    columns = Value(low.emit("conv2d", [images, single, None], options | {"groups": channels}), (groups, channels * size, *form[2:]))
    columns = reshaped(low, columns, (groups, channels * size, shaping.product(form[2:])))
    filters = reshaped(low, weight, (groups, out, channels * size))
    found = Value(low.emit("matmul", [filters, columns], {"transpose_a": False, "transpose_b": False}),
                  (groups, out, columns.shape[2]))
    result = reshaped(low, found, form)
    return result if bias is None else low.result("add", [result, reshaped(low, low.value(bias), (form[1], 1, 1))])


def of_each_group(low, extent, groups):
    """extent / groups, which both depend on the samples."""
    ratio = None if isinstance(extent, int) else extent.node.expr / groups.node.expr
    if ratio is None or not ratio.is_Integer:
        raise low.refusal("has as many groups as samples, but not as many filters for each")
    return int(ratio)


def one_of_window(channels, kernel):
    """Filters, a group for each channel, that give each number of a window: [channels · size, 1, kernel...]."""
    size = shaping.product(kernel)
    return torch.eye(size).reshape(size, 1, *kernel).repeat(channels, 1, 1, 1)


def padding_of(low, padding, kernel, stride, dilation):
    """PyTorch's 'valid' and 'same' as numbers."""
    if not isinstance(padding, str):
        return pair(padding)
    if padding == "valid":
        return [0, 0]
    spans = [d * (k - 1) for d, k in zip(dilation, kernel)]
    if any(span % 2 for span in spans):
        raise low.refusal("pads by 'same' with a kernel of even size, so more on one side")
    return [span // 2 for span in spans]


@translates("conv1d")
def conv1d(low, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """A convolution of images of one row."""
    x, w = low.value(input), low.value(weight)
    last = lambda numbers: numbers if isinstance(numbers, int) else numbers[0]
    if isinstance(padding, str):
        padding = padding_of(low, padding, (1, w.shape[2]), [1, last(stride)], [1, last(dilation)])[1]
    options = {"stride": [1, last(stride)], "padding": [0, last(padding)], "dilation": [1, last(dilation)],
               "groups": groups}
    image = reshaped(low, x, (*x.shape[:2], 1, x.shape[2]))
    kernel = reshaped(low, w, (*w.shape[:2], 1, w.shape[2]))
    shape = tuple(low.form().shape)
    return reshaped(low, Value(low.emit("conv2d", [image, kernel, bias], options), (*shape[:2], 1, shape[2])), shape)


def triple(numbers):
    """One number for all axes of a volume, or three."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return numbers * 3 if len(numbers) == 1 else numbers


@translates("conv3d")
def conv3d(low, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """A convolution of images: the slices of a volume that meet one place of the kernel's depth are channels."""
    x, w = low.value(input), low.value(weight)
    stride, dilation = triple(stride), triple(dilation)
    padding = volume_padding(low, padding, w.shape[2:], dilation)
    out, channels, depth = w.shape[:3]
    form = tuple(low.form().shape)
    x = shaping.pad(low, x, [0, 0, 0, 0, padding[0], padding[0]])
    starts = [place * dilation[0] for place in range(depth)]
    span = (form[2] - 1) * stride[0] + 1
    slices = [shaping.every(low, shaping.part(low, x, 2, start, start + span), 2, stride[0]) for start in starts]
    size = x.shape[3:]
    # [N, D, groups · (channels of a group, depth), H, W]: a group's channels must follow each other.
    apart = [reshaped(low, piece, (x.shape[0], groups * channels, 1, form[2], *size)) for piece in slices]
    together = shaping.joined(low, apart, 2) if depth > 1 else apart[0]
    moved = shaping.permuted(low, together, [0, 3, 1, 2, 4, 5])
    images = reshaped(low, moved, (x.shape[0] * form[2], groups * channels * depth, *size))
    kernel = reshaped(low, w, (out, channels * depth, *w.shape[3:]))
    shape = (images.shape[0], out, *form[3:])
    result = Value(low.emit("conv2d", [images, kernel, bias], window(stride[1:], padding[1:], dilation[1:], groups)), shape)
    return from_images(low, result, form)


def volume_padding(low, padding, kernel, dilation):
    if not isinstance(padding, str):
        return triple(padding)
    return [padding_of(low, padding, [k], [1], [d])[0] for k, d in zip(kernel, dilation)]


def as_images(low, x):
    """[N, C, D, H, W] as [N · D, C, H, W]."""
    n, c, d, h, w = x.shape
    return reshaped(low, shaping.permuted(low, x, [0, 2, 1, 3, 4]), (n * d, c, h, w))


def from_images(low, images, form):
    """The same backwards: [N · D, C, H, W] as form, [N, C, D, H, W]."""
    n, c, d, h, w = form
    return shaping.permuted(low, reshaped(low, images, (n, d, *images.shape[1:2], h, w)), [0, 2, 1, 3, 4])


@translates("conv_transpose2d")
def conv_transpose2d(low, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of a convolution by its input."""
    options = window(stride, padding, dilation, groups) | {"input_size": list(low.form().shape[2:])}
    if isinstance(groups, int):
        result = low.result("conv2d_backward_data", [input, weight], options)
    else:
        result = conv_transpose2d_of_samples(low, low.value(input), low.value(weight), options)
    if bias is None:
        return result
    return low.result("add", [result, reshaped(low, low.value(bias), (result.shape[1], 1, 1))])


def conv_transpose2d_of_samples(low, x, weight, options):
    """The same with filters of each sample: their products with the images, put together from windows."""
    form, groups, (channels, out, *kernel) = tuple(low.form().shape), options["groups"], weight.shape
    channels, size = of_each_group(low, channels, groups), shaping.product(kernel)
    images = reshaped(low, x, (groups, channels, shaping.product(x.shape[2:])))
    filters = reshaped(low, weight, (groups, channels, out * size))
    columns = Value(low.emit("matmul", [filters, images], {"transpose_a": True, "transpose_b": False}),
                    (groups, out * size, images.shape[2]))
    columns = reshaped(low, columns, (groups, out * size, *x.shape[2:]))
    found = low.emit("conv2d_backward_data", [columns, one_of_window(out, kernel)], options | {"groups": out})
    return reshaped(low, Value(found, (groups, out, *form[2:])), form)


@translates("conv_transpose1d")
def conv_transpose1d(low, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The same for images of one row."""
    x, w, form = low.value(input), low.value(weight), tuple(low.form().shape)
    last = lambda numbers: numbers if isinstance(numbers, int) else numbers[0]
    options = {"stride": [1, last(stride)], "padding": [0, last(padding)], "dilation": [1, last(dilation)], "groups": groups,
               "input_size": [1, form[2]]}
    image, kernel = reshaped(low, x, (*x.shape[:2], 1, x.shape[2])), reshaped(low, w, (*w.shape[:2], 1, w.shape[2]))
    result = reshaped(low, Value(low.emit("conv2d_backward_data", [image, kernel], options), (*form[:2], 1, form[2])), form)
    return result if bias is None else low.result("add", [result, reshaped(low, low.value(bias), (form[1], 1))])


def one_by_one(low, weight, bias, extent):
    """Scale and offset, with ones and zeros for those that are left out."""
    scale = low.value(torch.ones(extent) if weight is None else weight)
    return scale, low.value(torch.zeros(extent) if bias is None else bias)


@translates("batch_norm")
def batch_norm(low, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    x = low.value(low._used(input))
    form = tuple(low.form().shape)
    if x.rank not in (2, 4):
        x = reshaped(low, x, (*x.shape[:2], x.shape[2], product_of(x.shape[3:])))
    gamma, beta = one_by_one(low, low._used(weight), low._used(bias), x.shape[1])
    epsilon = {"epsilon": float(eps)}
    if training:
        y, mean, variance, *_ = low.emit("batch_norm", [x, gamma, beta], epsilon, which=None)
        if running_mean is not None:
            low.add_statistics([(3, mean), (4, variance)], momentum, x)
    else:
        if running_mean is None:
            raise low.refusal("has no running statistics, so it normalises by the samples of a batch in evaluation")
        statistics = [low.state_parameter(argument) for argument in (3, 4)]
        y = low.emit("batch_norm_inference", [x, gamma, beta, *statistics], epsilon)
    return reshaped(low, Value(y, x.shape), form) if len(form) != x.rank else Value(y, form)


def product_of(extents):
    return shaping.product(extents)


@translates("layer_norm")
def layer_norm(low, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    x = low.value(input)
    extent = product_of(normalized_shape)
    gamma, beta = one_by_one(low, weight, bias, list(normalized_shape))
    form = tuple(low.form().shape)
    if len(normalized_shape) > 1:
        x = reshaped(low, x, (*x.shape[:-len(normalized_shape)], extent))
        gamma, beta = reshaped(low, gamma, (extent,)), reshaped(low, beta, (extent,))
    y = Value(low.emit("layer_norm", [x, gamma, beta], {"epsilon": float(eps)}), x.shape)
    return reshaped(low, y, form) if len(normalized_shape) > 1 else y


@translates("group_norm")
def group_norm(low, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    x = low.value(input)
    channels = x.shape[1]
    extent = channels // num_groups * product_of(x.shape[2:])
    grouped = reshaped(low, x, (x.shape[0], num_groups, extent))
    ones, zeros = low.value(torch.ones(extent)), low.value(torch.zeros(extent))
    normal = Value(low.emit("layer_norm", [grouped, ones, zeros], {"epsilon": float(eps)}), grouped.shape)
    y = reshaped(low, normal, x.shape)
    aligned = (channels, *[1] * (x.rank - 2))
    if weight is not None:
        y = low.result("mul", [y, reshaped(low, low.value(weight), aligned)])
    return y if bias is None else low.result("add", [y, reshaped(low, low.value(bias), aligned)])


@translates("instance_norm")
def instance_norm(low, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    if running_mean is not None:
        raise low.refusal("has running statistics, which Telar keeps for batch norms only")
    x = low._used(input)
    return group_norm(low, x, low.value(x).shape[1], low._used(weight), low._used(bias), eps)


def gradient_where(low, value, kept, rest):
    """The value, with a gradient where `kept` is 1. rest: 1 - kept; None if the value is zero there."""
    trained = Value(low.emit("mul", [value, kept]), value.shape)
    if rest is None:
        return trained
    fixed = Value(low.emit("stop_gradient", [value]), value.shape)
    return Value(low.emit("add", [trained, Value(low.emit("mul", [fixed, rest]), value.shape)]), value.shape)


@translates("embedding")
def embedding(low, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    table = low.value(weight)
    if scale_grad_by_freq:
        raise low.refusal("scales gradients by the frequency of tokens in the batch")
    if padding_idx >= 0:
        mask = torch.ones(table.shape[0], 1)
        mask[padding_idx] = 0
        # The last layer's matrix may be the same table, and then the row does not stay zero.
        rest = None if low.stays_zero(0, padding_idx) else 1 - mask
        if not isinstance(indices, (torch.Tensor, Repeated, Uniform)):
            tokens = indexing.indices(low, indices)
            vectors = indexing.looked_up(low, table, tokens)
            of_tokens = [None if of_rows is None else indexing.looked_up(low, low.value(of_rows), tokens)
                         for of_rows in (mask, rest)]
            return gradient_where(low, vectors, *of_tokens)
        table = gradient_where(low, table, mask, rest)
    if isinstance(indices, torch.Tensor):
        return shaping.rows(low, table, indices)
    if isinstance(indices, Uniform):
        indices = Repeated(torch.full((1, *indices.shape[1:]), int(indices.number)), indices.shape)
    if isinstance(indices, Repeated):
        return shaping.expanded(low, shaping.rows(low, table, indices.tensor), tuple(low.form().shape))
    return indexing.looked_up(low, table, indices)


@translates("embedding_bag")
def embedding_bag(low, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of rows. Bags must be the rows of a matrix of indices, [N, T]."""
    length = step_of(low.node_of("offsets"))
    if length is None or include_last_offset or low.items(low.form().shape[:1]) is None:
        raise low.refusal("has offsets of its own; give it bags of one size, as indices of two axes")
    if scale_grad_by_freq:
        raise low.refusal("scales gradients by the frequency of tokens in the batch")
    bags, width = low.form().shape[0], low.value(weight).shape[1]
    found = low.result("embedding", [indices, weight])
    rows = reshaped(low, Value(found.id, (bags * length, width)), (bags, length, width))
    if per_sample_weights is not None:
        rows = elementwise.times(low, rows, reshaped(low, low.value(per_sample_weights), (bags, length, 1)))
    counted = None
    if padding_idx is not None and padding_idx >= 0:
        padding = padding_idx
        if mode == 2:
            raise low.refusal("leaves out padding from maxima")
        counted = low.from_batch(low.node_of("indices"), lambda value, samples: (value != padding).float().reshape(samples, -1, 1),
                                 f"not {padding}", (low.items((bags,)) * length, 1))
        rows = elementwise.times(low, rows, reshaped(low, counted, (bags, length, 1)))
    name = ("reduce_sum", "reduce_sum" if counted else "reduce_mean", "reduce_max")[mode]
    result = Value(low.emit(name, [rows], {"axes": [1], "keep_dims": False}), (bags, width))
    if mode == 1 and counted:
        inverse = low.from_batch(low.node_of("indices"), lambda value, samples: 1 / (value != padding).float().reshape(
            samples, -1, length).sum(2, keepdim=True).clamp(min=1), f"1 / the number that is not {padding} of {length}", (low.items((bags,)), 1))
        result = elementwise.times(low, result, reshaped(low, inverse, (bags, 1)))
    return [result, None, None, None]


def step_of(node):
    """The distance of numbers in line from 0, or None."""
    if not isinstance(node, torch.fx.Node) or name_of(node) != "arange":
        return None
    start, step = (0 if len(node.args) == 1 else node.args[0]), (node.args[2] if len(node.args) == 3 else 1)
    return step if start == 0 and isinstance(step, int) else None


@translates("max_pool2d", "max_pool1d")
def max_pool(low, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    if any(d != 1 for d in pair(dilation)):
        raise low.refusal("has a dilation")
    value = low.value(self)
    if ceil_mode and not exact(low, self, kernel_size, stride, padding):
        if value.rank != 4:
            raise low.refusal("rounds up the number of windows")
        value = with_whole_windows(low, value, pair(kernel_size), pair(stride or kernel_size), pair(padding))
    return pooled(low, "max_pool", value, kernel_size, stride, padding)


def with_whole_windows(low, x, kernel, stride, padding, number=-1e30):
    """Images with this number below and on the right, so that the last windows are whole."""
    for axis, (windows, k, s, p) in enumerate(zip(low.form().shape[2:], kernel, stride, padding), start=2):
        more = (windows - 1) * s + k - x.shape[axis] - 2 * p
        if more > 0:
            border = low.ones(tuple(more if i == axis else extent for i, extent in enumerate(x.shape)), number)
            x = shaping.joined(low, [x, border], axis)
    return x


@translates("avg_pool2d", "avg_pool1d")
def average_pool(low, self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None):
    value = low.value(self)
    if divisor_override:
        raise low.refusal("has a divisor of its own; multiply the result by the size of a window, divided by it")
    if (not ceil_mode or exact(low, self, kernel_size, stride, padding)) and (count_include_pad or not any(pair(padding))):
        return pooled(low, "average_pool", value, kernel_size, stride, padding)
    if value.rank != 4:
        raise low.refusal("rounds up the number of windows, or leaves out the padding of rows")
    kernel, stride, padding = pair(kernel_size), pair(stride or kernel_size), pair(padding)
    ones, size = torch.ones(1, 1, *value.shape[2:]), shaping.product(kernel)
    right = torch.nn.functional.avg_pool2d(ones, kernel, stride, padding, ceil_mode, count_include_pad)
    inside = torch.nn.functional.avg_pool2d(ones, kernel, stride, padding, ceil_mode, True, divisor_override=size)
    whole = with_whole_windows(low, value, kernel, stride, padding, 0.0)
    return low.result("mul", [pooled(low, "average_pool", whole, kernel, stride, padding), right / inside])


def exact(low, x, kernel, stride, padding):
    """Whether the windows fill the image, so that nothing is rounded."""
    sizes = low.value(x).shape[2:]
    return all((size + 2 * p - k) % s == 0
               for size, k, s, p in zip(sizes, pair(kernel), pair(stride or kernel), pair(padding)))


def pooled(low, name, x, kernel, stride, padding):
    value = low.value(x)
    options = {"kernel": pair(kernel), "stride": pair(stride or kernel), "padding": pair(padding)}
    if value.rank == 4:
        return low.result(name, [value], options)
    options = {key: [{"kernel": 1, "stride": 1, "padding": 0}[key], numbers[1]] for key, numbers in options.items()}
    image = reshaped(low, value, (*value.shape[:2], 1, value.shape[2]))
    shape = tuple(low.form().shape)
    return reshaped(low, Value(low.emit(name, [image], options), (*shape[:2], 1, shape[2])), shape)


@translates("max_pool3d", "avg_pool3d")
def pool_of_volumes(low, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False, count_include_pad=True,
                    divisor_override=None):
    """Of each slice, then along the depth."""
    value, form = low.value(self), tuple(low.form().shape)
    kernel, padding = triple(kernel_size), triple(padding)
    stride = triple(stride or kernel)
    if any(d != 1 for d in triple(dilation)) or divisor_override or (any(padding) and not count_include_pad) or (
            ceil_mode and any((size + 2 * p - k) % s for size, k, s, p in zip(value.shape[2:], kernel, stride, padding))):
        raise low.refusal("has a dilation, rounds up the number of windows, or has another divisor than the size of a window")
    name = "max_pool" if low.operation() == "max_pool3d" else "average_pool"
    images = as_images(low, value)
    options = {"kernel": kernel[1:], "stride": stride[1:], "padding": padding[1:]}
    flat = Value(low.emit(name, [images], options), (*images.shape[:2], *form[3:]))
    slices = from_images(low, flat, (*value.shape[:3], *form[3:]))
    rows = reshaped(low, slices, (*value.shape[:3], form[3] * form[4]))
    options = {"kernel": [kernel[0], 1], "stride": [stride[0], 1], "padding": [padding[0], 0]}
    return reshaped(low, Value(low.emit(name, [rows], options), (*form[:3], form[3] * form[4])), form)


@translates("adaptive_avg_pool3d")
def adaptive_average_pool_of_volumes(low, self, output_size):
    value, form = low.value(self), tuple(low.form().shape)
    if any(size % want for size, want in zip(value.shape[2:], form[2:])):
        raise low.refusal(f"pools {tuple(value.shape[2:])} to {form[2:]}, by windows of different sizes")
    apart = [part for size, want in zip(value.shape[2:], form[2:]) for part in (want, size // want)]
    cut = reshaped(low, value, (*value.shape[:2], *apart))
    return low.result("reduce_mean", [cut], {"axes": [3, 5, 7], "keep_dims": False})


@translates("adaptive_avg_pool2d")
def adaptive_average_pool(low, self, output_size):
    value = low.value(self)
    sizes, wanted = value.shape[2:], low.form().shape[2:]
    if tuple(sizes) == tuple(wanted):
        return value
    if tuple(wanted) == (1, 1):
        return low.result("reduce_mean", [value], {"axes": [2, 3], "keep_dims": True})
    if all(want % size == 0 for size, want in zip(sizes, wanted)):
        return shaping.upsample(low, value)
    if any(size % want for size, want in zip(sizes, wanted)):
        return shaping.resized(low, value, torch.nn.functional.adaptive_avg_pool2d)
    kernel = [size // want for size, want in zip(sizes, wanted)]
    return low.result("average_pool", [value], {"kernel": kernel, "stride": kernel, "padding": [0, 0]})


@translates("adaptive_max_pool2d")
def adaptive_max_pool(low, self, output_size):
    value = low.value(self)
    sizes, wanted = value.shape[2:], low.form().shape[2:]
    if any(size % want for size, want in zip(sizes, wanted)):
        raise low.refusal(f"pools {tuple(sizes)} to {tuple(wanted)}, by windows of different sizes")
    kernel = [size // want for size, want in zip(sizes, wanted)]
    return [low.result("max_pool", [value], {"kernel": kernel, "stride": kernel, "padding": [0, 0]}), None]


@translates("adaptive_avg_pool1d")
def adaptive_average_pool1d(low, self, output_size):
    value = low.value(self)
    size, want = value.shape[2], low.form().shape[2]
    if size % want:
        raise low.refusal(f"pools {size} to {want}, by windows of different sizes")
    apart = reshaped(low, value, (*value.shape[:2], want, size // want))
    return low.result("reduce_mean", [apart], {"axes": [3], "keep_dims": False})


@translates("scaled_dot_product_attention")
def attention(low, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(q · kᵀ · scale + mask) · v."""
    q, k, v = (low.value(tensor) for tensor in (query, key, value))
    k, v = (for_queries(low, tensor, q) for tensor in (k, v))
    factor = q.shape[-1]**-0.5 if scale is None else scale
    shape = (*q.shape[:-1], k.shape[-2])
    scores = Value(low.emit("matmul", [scaled(low, q, factor), k], {"transpose_a": False, "transpose_b": True}), shape)
    if is_causal:
        attn_mask = torch.ones(shape[-2], shape[-1], dtype=torch.bool).tril()
    if attn_mask is not None:
        is_bool = is_causal or low.node_of("attn_mask").meta["val"].dtype == torch.bool
        scores = Value(low.emit("add", [scores, additive_mask(low, attn_mask, is_bool)]), shape)
    weights = Value(low.emit("softmax", [scores], {"axis": len(shape) - 1}), shape)
    weights = dropped(low, weights, dropout_p)
    return low.result("matmul", [weights, v], {"transpose_a": False, "transpose_b": False})


def for_queries(low, keys, q):
    """Keys or values [N, heads, T, D], each for as many neighbouring heads of queries as there are."""
    if q.rank != 4 or keys.shape[1] == q.shape[1]:
        return keys
    n, heads, *rest = keys.shape
    apart = reshaped(low, keys, (n, heads, 1, *rest))
    return reshaped(low, shaping.expanded(low, apart, (n, heads, q.shape[1] // heads, *rest)), (n, q.shape[1], *rest))


def additive_mask(low, mask, is_bool):
    """A mask as numbers that are added to scores. Infinities become numbers whose exponential is 0, too."""
    if isinstance(mask, Repeated):
        return Repeated(additive_mask(low, mask.tensor, is_bool), mask.shape)
    if not isinstance(mask, torch.Tensor):
        value = low.value(mask)
        return scaled(low, Value(low.emit("add", [value, -1.0]), value.shape), 1e30) if is_bool else value
    numbers = torch.zeros(mask.shape).masked_fill(~mask, -1e30) if mask.dtype == torch.bool else mask.float()
    if bool((numbers <= -1e30).all(dim=-1).any()):
        raise low.refusal("masks all keys of a query")
    return numbers.clamp(min=-1e30)


@translates("cosine_similarity")
def cosine_similarity(low, x1, x2, dim=1, eps=1e-8):
    a, b = low.value(x1), low.value(x2)
    axis = dim % a.rank
    shape = tuple(extent for i, extent in enumerate(a.shape) if i != axis)

    def dot(x, y):
        product = Value(low.emit("mul", [x, y]), a.shape)
        return Value(low.emit("reduce_sum", [product], {"axes": [axis], "keep_dims": False}), shape)

    def inverse_norm(x):
        limited = low.emit("clamp", [dot(x, x)], {"least": eps * eps, "most": 3.4e38})
        return Value(low.emit("pow", [Value(limited, shape)], {"exponent": -0.5}), shape)

    both = Value(low.emit("mul", [inverse_norm(a), inverse_norm(b)]), shape)
    return low.result("mul", [dot(a, b), both])
