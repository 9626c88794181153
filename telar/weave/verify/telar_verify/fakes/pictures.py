"""Images as scripts get them from a data set: of Pillow, or, where that is not installed, a small class instead."""
import numpy as np
import torch

try:
    from PIL import Image
except ImportError:
    Image = None


class Picture:
    """What scripts use most of Pillow's images. `array`: height, width and, with colours, 3 channels."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array, np.uint8)

    height = property(lambda self: self.array.shape[0])
    width = property(lambda self: self.array.shape[1])
    size = property(lambda self: (self.width, self.height))
    mode = property(lambda self: "RGB" if self.array.ndim == 3 else "L")

    def __array__(self, dtype=None, copy=None):
        return self.array.astype(dtype or np.uint8)

    def convert(self, mode):
        if mode == self.mode or mode not in ("L", "RGB"):
            return self
        if mode == "RGB":
            return Picture(np.repeat(self.array[..., None], 3, 2))
        return Picture(self.array @ np.array([0.299, 0.587, 0.114]))


def picture(array):
    """An image of an array [H, W] or [H, W, C] of bytes."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    return Image.fromarray(np.ascontiguousarray(array)) if Image else Picture(array)


def is_picture(thing):
    return isinstance(thing, Picture) or (Image is not None and isinstance(thing, Image.Image))


def tensor_of(image):
    """The image as a tensor [C, H, W] of bytes."""
    array = np.array(image, np.uint8)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())


def read_picture(path):
    if Image is None:
        raise ImportError("reading %s needs Pillow, which is not installed" % path)
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")
