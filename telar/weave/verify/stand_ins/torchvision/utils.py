"""Images of a batch, in one picture."""
import math

import torch

from telar_verify.fakes.png import write_png

from .missing import explain


def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0, **other):
    if isinstance(tensor, (list, tuple)):
        tensor = torch.stack(list(tensor))
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    if tensor.size(1) == 1:
        tensor = tensor.expand(-1, 3, -1, -1)
    tensor = tensor.detach().float().cpu()
    if normalize:
        tensor = scaled(tensor, value_range, scale_each)
    count, channels, height, width = tensor.shape
    if count == 1:
        return tensor[0]
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    height, width = height + padding, width + padding
    grid = torch.full((channels, height * rows + padding, width * columns + padding), float(pad_value))
    for at, image in enumerate(tensor):
        top, left = at // columns * height + padding, at % columns * width + padding
        grid[:, top:top + height - padding, left:left + width - padding] = image
    return grid


def scaled(tensor, value_range, scale_each):
    if scale_each:
        return torch.stack([scaled(one, value_range, False) for one in tensor])
    low, high = value_range if value_range is not None else (tensor.min(), tensor.max())
    return (tensor.clamp(low, high) - low) / max(float(high - low), 1e-5)


def save_image(tensor, fp, format=None, **options):
    """Writes a PNG, whatever the name's ending."""
    grid = make_grid(tensor, **options).mul(255).add(0.5).clamp(0, 255).byte()
    write_png(fp, grid.permute(1, 2, 0).numpy())


__getattr__ = explain(__name__)
