"""Convolutions. Telar's images are [N, C, H, W], its kernels [O, I, H, W]; one-dimensional ones have one row."""

from telar.keras.activations import activated
from telar.keras.values import Layout, Value
from telar.registry import Registry

LAYERS = Registry()
translates = LAYERS.translates


def image(low, layer, x):
    """x as an image of Telar: Value of shape [N, C, H, W]."""
    x = low.number(x)
    first = layer.data_format == "channels_first"
    order = tuple(range(x.rank)) if first else (0, x.rank - 1, *range(1, x.rank - 1))
    held = low.ordered(x, order)
    plain = Value(held.id, held.held)
    return low.reshaped(plain, (*plain.shape[:2], 1, plain.shape[2])) if x.rank == 3 else plain


def of_image(low, layer, y, rank):
    """The layer's result, as Keras has it, of an image of Telar."""
    if rank == 3:
        y = low.reshaped(y, (*y.shape[:2], y.shape[3]))
    if layer.data_format == "channels_first":
        return y
    order = (0, rank - 1, *range(1, rank - 1))
    shape = [None] * rank
    for extent, axis in zip(y.shape, order):
        shape[axis] = extent
    return Value(y.id, tuple(shape), order=order)


def two(numbers, row):
    """The numbers of both axes; `row` for the first, if there is one axis."""
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    return list(numbers) if len(numbers) == 2 else [row, *numbers]


def borders(layer, sizes, kernel, stride, dilation):
    """(before, after) for each axis, by Keras's 'same', 'causal' and 'valid'."""
    found = []
    for axis, (size, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation)):
        span = (k - 1) * d + 1
        if layer.padding == "causal":
            found.append((span - 1, 0) if axis == 1 else (0, 0))
        elif layer.padding == "same":
            total = max((-(-size // s) - 1) * s + span - size, 0)
            found.append((total // 2, total - total // 2))
        else:
            found.append((0, 0))
    return found


def convolved(low, layer, x, weight, bias, groups):
    """weight: [O, I / groups, H, W]."""
    kernel, stride, dilation = weight.shape[2:], two(layer.strides, 1), two(layer.dilation_rate, 1)
    around = borders(layer, x.shape[2:], kernel, stride, dilation)
    padding = [before if before == after else 0 for before, after in around]
    for axis, (before, after) in enumerate(around, 2):
        if before != after:
            x = low.padded(x, axis, before, after)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape = [(size + 2 * p - (k - 1) * d - 1) // s + 1
             for size, p, k, d, s in zip(x.shape[2:], padding, kernel, dilation, stride)]
    return Value(low.emit("conv2d", [x, weight, bias], options), (x.shape[0], weight.shape[0], *shape))


def kernel_of(low, variable):
    """A kernel [H, W, I, O], or [W, I, O]."""
    *space, inputs, outputs = variable.shape
    order = (len(space) + 1, len(space), *range(len(space)))
    return low.parameter(variable, Layout(tuple(variable.shape), order, (outputs, inputs, *two(space, 1))))


def depthwise_kernel_of(low, variable):
    """A kernel [H, W, C, M] of M results for each channel."""
    *space, channels, each = variable.shape
    order = (len(space), len(space) + 1, *range(len(space)))
    return low.parameter(variable, Layout(tuple(variable.shape), order, (channels * each, 1, *two(space, 1))))


@translates("Conv1D", "Conv2D")
def convolution(low, layer, x):
    if getattr(layer, "lora_enabled", False):
        raise low.refusal("has LoRA weights")
    bias = low.parameter(layer.bias) if layer.use_bias else None
    y = convolved(low, layer, image(low, layer, x), kernel_of(low, layer._kernel), bias, layer.groups)
    return activated(low, of_image(low, layer, y, layer.rank + 2), layer.activation)


@translates("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise(low, layer, x):
    bias = low.parameter(layer.bias) if layer.use_bias else None
    images = image(low, layer, x)
    y = convolved(low, layer, images, depthwise_kernel_of(low, layer.kernel), bias, images.shape[1])
    return activated(low, of_image(low, layer, y, layer.rank + 2), layer.activation)


@translates("SeparableConv1D", "SeparableConv2D")
def separable(low, layer, x):
    bias = low.parameter(layer.bias) if layer.use_bias else None
    images = image(low, layer, x)
    y = convolved(low, layer, images, depthwise_kernel_of(low, layer.depthwise_kernel), None, images.shape[1])
    plain = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    weight = kernel_of(low, layer.pointwise_kernel)
    y = Value(low.emit("conv2d", [y, weight, bias], plain), (y.shape[0], weight.shape[0], *y.shape[2:]))
    return activated(low, of_image(low, layer, y, layer.rank + 2), layer.activation)


@translates("Conv1DTranspose", "Conv2DTranspose")
def transposed(low, layer, x):
    """The gradient of a convolution by its input, with what 'same' cuts off at the end."""
    if layer.output_padding is not None:
        raise low.refusal("has an output_padding")
    images = image(low, layer, x)
    *space, outputs, inputs = layer.kernel.shape
    order = (len(space) + 1, len(space), *range(len(space)))
    weight = low.parameter(layer.kernel, Layout(tuple(layer.kernel.shape), order, (inputs, outputs, *two(space, 1))))
    stride, dilation = two(layer.strides, 1), two(layer.dilation_rate, 1)
    sizes, padding, wanted = [], [], []
    for size, k, s, d in zip(images.shape[2:], weight.shape[2:], stride, dilation):
        span = (k - 1) * d + 1
        cut = max(span - s, 0) if layer.padding == "same" else 0
        want = size * s + (0 if layer.padding == "same" else max(span - s, 0))
        before = cut // 2
        padding.append(before)
        wanted.append(want)
        sizes.append(max((size - 1) * s + span - 2 * before, want))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 1, "input_size": sizes}
    y = Value(low.emit("conv2d_backward_data", [images, weight], options), (images.shape[0], outputs, *sizes))
    for axis, want in enumerate(wanted, 2):
        y = low.part(y, axis, 0, want) if want != y.shape[axis] else y
    if layer.use_bias:
        y = low.add(y, low.reshaped(low.parameter(layer.bias), (1, outputs, 1, 1)))
    return activated(low, of_image(low, layer, y, layer.rank + 2), layer.activation)
