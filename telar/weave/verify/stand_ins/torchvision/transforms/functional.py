"""Functions on images: of Pillow, of telar_verify.fakes.pictures, or tensors [..., C, H, W]."""
import math

import numpy as np
import torch
import torch.nn.functional as F

from telar_verify.fakes.pictures import is_picture, picture, tensor_of

from ..missing import explain

GREY = (0.2989, 0.587, 0.114)


def on_tensors(function):
    """Lets a function of a tensor take an image, too, and return one."""
    def changed(img, *arguments, **options):
        if not is_picture(img):
            return function(img, *arguments, **options)
        return to_pil_image(function(tensor_of(img), *arguments, **options))
    changed.__name__ = function.__name__
    return changed


def like(values, image):
    """Values as those of the image: rounded, where it has bytes."""
    return values.to(image.dtype) if image.is_floating_point() else values.round().clamp(0, 255).to(image.dtype)


def largest(image):
    return 1.0 if image.is_floating_point() else 255.0


def pil_to_tensor(pic):
    return tensor_of(pic)


def to_tensor(pic):
    if is_picture(pic):
        return tensor_of(pic).float() / 255
    array = np.asarray(pic)
    tensor = torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())
    return tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor


def to_pil_image(pic, mode=None):
    if torch.is_tensor(pic):
        pic = pic.detach().cpu()
        pic = pic.mul(255).byte() if pic.is_floating_point() else pic
        pic = (pic if pic.dim() == 3 else pic[None]).permute(1, 2, 0).numpy()
    return picture(np.asarray(pic, np.uint8))


def convert_image_dtype(image, dtype=torch.float):
    if image.dtype == torch.uint8 and dtype.is_floating_point:
        return image.to(dtype) / 255
    return image.mul(255).to(dtype) if image.is_floating_point() and not dtype.is_floating_point else image.to(dtype)


def normalize(tensor, mean, std, inplace=False):
    mean, std = (torch.as_tensor(one, dtype=tensor.dtype).reshape(-1, 1, 1) for one in (mean, std))
    return tensor.sub_(mean).div_(std) if inplace else (tensor - mean) / std


def get_image_size(img):
    """Width and height."""
    return [img.size[0], img.size[1]] if is_picture(img) else [img.shape[-1], img.shape[-2]]


def pair(size):
    return (int(size), int(size)) if isinstance(size, (int, float)) else \
        (int(size[0]), int(size[0])) if len(size) == 1 else (int(size[0]), int(size[1]))


@on_tensors
def resize(img, size, interpolation=None, max_size=None, antialias=True):
    height, width = img.shape[-2:]
    if isinstance(size, int) or len(size) == 1:  # of the shorter side
        short = size if isinstance(size, int) else size[0]
        size = (short, int(short * width / height)) if height <= width else (int(short * height / width), short)
    batch = img.reshape((-1,) + img.shape[-3:]).float()
    if interpolation in ("nearest", 0):
        changed = F.interpolate(batch, size=tuple(size), mode="nearest")
    else:
        changed = F.interpolate(batch, size=tuple(size), mode="bilinear", align_corners=False, antialias=True)
    return like(changed.reshape(img.shape[:-2] + tuple(size)), img)


@on_tensors
def pad(img, padding, fill=0, padding_mode="constant"):
    sides = [padding] * 4 if isinstance(padding, int) else list(padding) * (4 // len(padding))  # left top right bottom
    left, top, right, bottom = sides
    batch = img.reshape((-1,) + img.shape[-3:]).float()
    mode = {"edge": "replicate", "symmetric": "reflect"}.get(padding_mode, padding_mode)
    options = {"value": float(fill[0] if isinstance(fill, (tuple, list)) else fill)} if mode == "constant" else {}
    changed = F.pad(batch, [left, right, top, bottom], mode=mode, **options)
    return like(changed.reshape(img.shape[:-2] + changed.shape[-2:]), img)


@on_tensors
def crop(img, top, left, height, width):
    bottom, right = top + height, left + width
    outside = [max(0, -left), max(0, -top), max(0, right - img.shape[-1]), max(0, bottom - img.shape[-2])]
    img = pad(img, outside) if any(outside) else img
    top, left = max(top, 0), max(left, 0)
    return img[..., top:top + height, left:left + width]


def center_crop(img, output_size):
    height, width = pair(output_size)
    columns, rows = get_image_size(img)
    return crop(img, round((rows - height) / 2), round((columns - width) / 2), height, width)


def resized_crop(img, top, left, height, width, size, interpolation=None, antialias=True):
    return resize(crop(img, top, left, height, width), pair(size), interpolation)


@on_tensors
def hflip(img):
    return img.flip(-1)


@on_tensors
def vflip(img):
    return img.flip(-2)


def affine_of(img, matrix, fill=0):
    """The pixels at the places to which the 2 x 3 matrix, in pixels around the centre, leads those of the result."""
    height, width = img.shape[-2:]
    (a, b, c), (d, e, f) = matrix
    theta = torch.tensor([[[a, b * height / width, 2 * c / width], [d * width / height, e, 2 * f / height]]])
    batch = img.reshape((-1,) + img.shape[-3:]).float()
    grid = F.affine_grid(theta.expand(len(batch), 2, 3).float(), list(batch.shape), align_corners=False)
    changed = F.grid_sample(batch - float(fill), grid, mode="nearest", align_corners=False) + float(fill)
    return like(changed.reshape(img.shape), img)


@on_tensors
def affine(img, angle=0.0, translate=(0, 0), scale=1.0, shear=(0.0, 0.0), interpolation=None, fill=0):
    turn, lean = math.radians(angle), math.tan(math.radians(shear[0] if isinstance(shear, (tuple, list)) else shear))
    cos, sin = math.cos(turn) / scale, math.sin(turn) / scale
    rows = [[cos + lean * -sin, sin + lean * cos], [-sin, cos]]
    x, y = translate
    return affine_of(img, [row + [-row[0] * x - row[1] * y] for row in rows], fill)


def rotate(img, angle, interpolation=None, expand=False, center=None, fill=0):
    return affine(img, -angle, fill=fill)


@on_tensors
def rgb_to_grayscale(img, num_output_channels=1):
    if img.shape[-3] == 3:
        grey = sum(part * weight for part, weight in zip(img.float().unbind(-3), GREY)).unsqueeze(-3)
        img = like(grey, img)
    return img.expand(img.shape[:-3] + (num_output_channels,) + img.shape[-2:])


to_grayscale = rgb_to_grayscale


def blend(img, other, ratio):
    return like((ratio * img.float() + (1 - ratio) * other).clamp(0, largest(img)), img)


@on_tensors
def adjust_brightness(img, brightness_factor):
    return blend(img, torch.zeros(()), brightness_factor)


@on_tensors
def adjust_contrast(img, contrast_factor):
    return blend(img, rgb_to_grayscale(img).float().mean((-3, -2, -1), keepdim=True), contrast_factor)


@on_tensors
def adjust_saturation(img, saturation_factor):
    return blend(img, rgb_to_grayscale(img).float(), saturation_factor) if img.shape[-3] == 3 else img


@on_tensors
def adjust_hue(img, hue_factor):
    """A rotation of the colours around grey."""
    if img.shape[-3] != 3:
        return img
    turn = 2 * math.pi * hue_factor
    cos, sin = math.cos(turn), math.sin(turn) / math.sqrt(3)
    rest = (1 - cos) / 3
    matrix = torch.tensor([[cos + rest, rest - sin, rest + sin], [rest + sin, cos + rest, rest - sin],
                           [rest - sin, rest + sin, cos + rest]])
    return like(torch.einsum("ij,...jhw->...ihw", matrix, img.float()).clamp(0, largest(img)), img)


@on_tensors
def invert(img):
    return like(largest(img) - img.float(), img)


@on_tensors
def gaussian_blur(img, kernel_size, sigma=None):
    height, width = pair(kernel_size)
    sigma = sigma or 0.15 * height + 0.35
    sigma = float(sigma[0] if isinstance(sigma, (tuple, list)) else sigma)
    rows, columns = (torch.exp(-((torch.arange(count) - (count - 1) / 2) ** 2) / (2 * sigma ** 2))
                     for count in (height, width))
    kernel = rows[:, None] * columns[None]
    batch = img.reshape((-1, 1) + img.shape[-2:]).float()
    batch = F.pad(batch, [width // 2, width // 2, height // 2, height // 2], mode="reflect")
    return like(F.conv2d(batch, (kernel / kernel.sum())[None, None]).reshape(img.shape), img)


@on_tensors
def erase(img, i, j, h, w, v, inplace=False):
    img = img if inplace else img.clone()
    img[..., i:i + h, j:j + w] = v
    return img


__getattr__ = explain(__name__)
