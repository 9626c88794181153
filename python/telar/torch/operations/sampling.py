"""Pixels of images at places that the module computes."""

import torch

from telar.registry import Registry
from telar.torch.operations import elementwise, indexing
from telar.torch.operations.elementwise import of_one, scaled, times
from telar.torch.operations.shaping import part, permuted, reshaped
from telar.torch.values import Value

TRANSLATIONS = Registry()
translates = TRANSLATIONS.translates
BILINEAR, NEAREST = 0, 1  # PyTorch's numbers
ZEROS, BORDER = 0, 1


@translates("affine_grid_generator")
def affine_grid(low, theta, size, align_corners):
    """Places [N, H, W, 2] of matrices [N, 2, 3]: sums of the matrices' elements times constant images."""
    if len(size) != 4:
        raise low.refusal("is of volumes")
    form = tuple(low.form().shape)
    unit = torch.eye(3).unsqueeze(1).expand(3, 2, 3)
    columns = torch.nn.functional.affine_grid(unit, [3, 1, *size[2:]], align_corners)[..., 0].reshape(3, -1).T.contiguous()  # [H · W, 3]
    flat = reshaped(low, low.value(theta), (form[0] * 2, 3))
    found = Value(low.emit("matmul", [flat, columns], {"transpose_a": False, "transpose_b": True}), (form[0] * 2, columns.shape[0]))
    return reshaped(low, permuted(low, reshaped(low, found, (form[0], 2, columns.shape[0])), [0, 2, 1]), form)


@translates("grid_sampler", "grid_sampler_2d")
def grid_sample(low, input, grid, interpolation_mode, padding_mode, align_corners):
    """Bilinear: the four pixels around a place [N, H, W, 2] from −1 to 1, by their nearness."""
    x, places, form = low.value(input), low.value(grid), tuple(low.form().shape)
    if x.rank != 4 or interpolation_mode not in (BILINEAR, NEAREST) or padding_mode not in (ZEROS, BORDER):
        raise low.refusal("is of volumes, bicubic, or reflects at the border")
    n, channels, height, width = x.shape
    if height * width > indexing.MOST_PLACES:
        raise low.refusal(f"is of images of more than {indexing.MOST_PLACES} pixels")
    items = form[2] * form[3]
    pixels = reshaped(low, permuted(low, x, [0, 2, 3, 1]), (n, height * width, channels))
    at = reshaped(low, places, (n, items, 2))
    columns, rows = (along_axis(low, part(low, at, 2, i, i + 1), extent, padding_mode, align_corners) for i, extent in enumerate((width, height)))
    result = None
    for row, near_row in neighbours(low, rows, height, interpolation_mode, padding_mode):
        for column, near_column in neighbours(low, columns, width, interpolation_mode, padding_mode):
            place = add_of(low, scaled(low, row, width), column)
            one = times(low, indexing.taken(low, pixels, place, 1), times(low, near_row, near_column))
            result = one if result is None else add_of(low, result, one)
    return permuted(low, reshaped(low, result, (n, form[2], form[3], channels)), [0, 3, 1, 2])


def add_of(low, a, b):
    return Value(low.emit("add", [a, b]), a.shape)


def along_axis(low, place, extent, padding_mode, align_corners):
    """A place from −1 to 1 as a number of pixels from the first one."""
    factor = (extent - 1) / 2 if align_corners else extent / 2
    number = add_of(low, scaled(low, place, factor), low.value((extent - 1) / 2))
    return of_one(low, "clamp", number, {"least": 0.0, "most": float(extent - 1)}) if padding_mode == BORDER else number


def neighbours(low, place, extent, interpolation_mode, padding_mode):
    """Pixels along an axis, and how much of each is taken."""
    if interpolation_mode == NEAREST:
        chosen = [(of_one(low, "round", place), None)]
    else:
        before = of_one(low, "floor", place)
        fraction = add_of(low, place, scaled(low, before, -1))
        chosen = [(before, elementwise.less_from_one(low, fraction)), (add_of(low, before, low.value(1.0)), fraction)]
    result = []
    for pixel, nearness in chosen:
        inside = of_one(low, "within", pixel, {"least": 0.0, "most": float(extent - 1)})
        nearness = inside if nearness is None else times(low, nearness, inside)
        result.append((of_one(low, "clamp", pixel, {"least": 0.0, "most": float(extent - 1)}), nearness))
    return result
