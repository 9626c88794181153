"""Transforms of images. Random ones draw from torch's generator, as torchvision's do."""
import enum
import math
import random

import torch

from . import functional as F
from ..missing import explain


class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def uniform(low, high):
    return float(torch.empty(1).uniform_(low, high))


def integer(low, high):
    """From `low` to `high`, both included."""
    return int(torch.randint(low, high + 1, (1,)))


def around(value, centre=0.0):
    """A range from a number, or the range itself."""
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (max(0.0, centre - value), centre + value) if centre else (-value, value)


class Compose:
    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, img):
        for one in self.transforms:
            img = one(img)
        return img


class Transform(torch.nn.Module):
    """One whose `forward` changes an image."""

    def __repr__(self):
        return type(self).__name__ + "()"


def simple(name, function, *parameters, **defaults):
    """A transform that calls a function with its arguments."""
    def init(self, *arguments, **options):
        Transform.__init__(self)
        self.options = dict(defaults, **dict(zip(parameters, arguments), **options))

    def forward(self, img):
        return function(img, **self.options)

    return type(name, (Transform,), {"__init__": init, "forward": forward, "__module__": __name__})


ToTensor = simple("ToTensor", F.to_tensor)
PILToTensor = simple("PILToTensor", F.pil_to_tensor)
ToPILImage = simple("ToPILImage", F.to_pil_image, "mode")
ConvertImageDtype = simple("ConvertImageDtype", F.convert_image_dtype, "dtype")
Normalize = simple("Normalize", F.normalize, "mean", "std", "inplace")
Pad = simple("Pad", F.pad, "padding", "fill", "padding_mode")
Grayscale = simple("Grayscale", F.rgb_to_grayscale, "num_output_channels")


class Resize(Transform):
    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__()
        self.size = size
        self.interpolation = getattr(interpolation, "value", interpolation)

    def forward(self, img):
        return F.resize(img, self.size, self.interpolation)


class CenterCrop(Transform):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, img):
        return F.center_crop(img, self.size)


class Lambda(Transform):
    def __init__(self, lambd):
        super().__init__()
        self.lambd = lambd

    def forward(self, img):
        return self.lambd(img)


class RandomCrop(Transform):
    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__()
        self.size, self.padding, self.pad_if_needed = F.pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def forward(self, img):
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        height, width = self.size
        columns, rows = F.get_image_size(img)
        if self.pad_if_needed and (columns < width or rows < height):
            img = F.pad(img, [max(0, width - columns), max(0, height - rows)], self.fill, self.padding_mode)
            columns, rows = F.get_image_size(img)
        if columns < width or rows < height:
            raise ValueError("an image of %d x %d pixels has no part of %d x %d" % (columns, rows, width, height))
        return F.crop(img, integer(0, rows - height), integer(0, columns - width), height, width)


class RandomResizedCrop(Transform):
    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=None, antialias=True):
        super().__init__()
        self.size, self.scale, self.ratio = F.pair(size), scale, ratio

    def forward(self, img):
        columns, rows = F.get_image_size(img)
        area = columns * rows * uniform(*self.scale)
        ratio = math.exp(uniform(*map(math.log, self.ratio)))
        width, height = (max(1, min(most, round(side))) for most, side in (
            (columns, math.sqrt(area * ratio)), (rows, math.sqrt(area / ratio))))
        top, left = integer(0, rows - height), integer(0, columns - width)
        return F.resized_crop(img, top, left, height, width, self.size)


class Sometimes(Transform):
    """Applies a function with a probability."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return self.change(img) if float(torch.rand(1)) < self.p else img


class RandomHorizontalFlip(Sometimes):
    change = staticmethod(F.hflip)


class RandomVerticalFlip(Sometimes):
    change = staticmethod(F.vflip)


class RandomInvert(Sometimes):
    change = staticmethod(F.invert)


class RandomGrayscale(Sometimes):
    def __init__(self, p=0.1):
        super().__init__(p)

    def change(self, img):
        channels = 1 if getattr(img, "mode", "RGB") == "L" else 3
        return F.rgb_to_grayscale(img, channels)


class RandomErasing(Sometimes):
    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__(p)
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    def change(self, img):
        rows, columns = img.shape[-2:]
        area = rows * columns * uniform(*self.scale)
        ratio = math.exp(uniform(*map(math.log, self.ratio)))
        height, width = min(rows, round(math.sqrt(area * ratio))), min(columns, round(math.sqrt(area / ratio)))
        top, left = integer(0, rows - height), integer(0, columns - width)
        value = 0.0 if isinstance(self.value, str) else self.value
        return F.erase(img, top, left, height, width, value, self.inplace)


class RandomApply(Transform):
    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self.p = list(transforms), p

    def forward(self, img):
        return Compose(self.transforms)(img) if float(torch.rand(1)) < self.p else img


class RandomChoice:
    def __init__(self, transforms, p=None):
        self.transforms, self.p = list(transforms), p

    def __call__(self, img):
        return random.choices(self.transforms, self.p)[0](img)


class RandomOrder:
    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, img):
        return Compose(random.sample(self.transforms, len(self.transforms)))(img)


class RandomRotation(Transform):
    def __init__(self, degrees, interpolation=None, expand=False, center=None, fill=0):
        super().__init__()
        self.degrees, self.fill = around(degrees), fill

    def forward(self, img):
        return F.rotate(img, uniform(*self.degrees), fill=self.fill)


class RandomAffine(Transform):
    def __init__(self, degrees, translate=None, scale=None, shear=None, interpolation=None, fill=0, center=None):
        super().__init__()
        self.degrees, self.translate, self.scale, self.fill = around(degrees), translate, scale, fill
        self.shear = around(shear)[:2] if shear is not None else None

    def forward(self, img):
        columns, rows = F.get_image_size(img)
        angle = uniform(*self.degrees)
        move = [round(uniform(-part, part) * side) for part, side in zip(self.translate, (columns, rows))] \
            if self.translate else (0, 0)
        return F.affine(img, angle, move, uniform(*self.scale) if self.scale else 1.0,
                        uniform(*self.shear) if self.shear else 0.0, fill=self.fill)


class ColorJitter(Transform):
    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        self.changes = [(F.adjust_brightness, brightness, 1.0), (F.adjust_contrast, contrast, 1.0),
                        (F.adjust_saturation, saturation, 1.0), (F.adjust_hue, hue, 0.0)]

    def forward(self, img):
        for at in torch.randperm(len(self.changes)).tolist():
            function, strength, centre = self.changes[at]
            if strength:
                img = function(img, uniform(*around(strength, centre)))
        return img


class GaussianBlur(Transform):
    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        self.kernel_size, self.sigma = kernel_size, sigma if isinstance(sigma, (tuple, list)) else (sigma, sigma)

    def forward(self, img):
        return F.gaussian_blur(img, self.kernel_size, uniform(*self.sigma))


Scale, RandomSizedCrop = Resize, RandomResizedCrop  # older names
__getattr__ = explain("torchvision.transforms")
