"""Weights that a program would download, with random numbers instead: the same in every process."""
import math
import os

import torch
import torch.utils.model_zoo

from . import randoms


class MissingWeights(dict):
    """What a download returns. A model that loads it is filled with random numbers."""


def settle(module, name):
    """Gives a module's parameters values that depend only on the name."""
    with torch.no_grad():
        for key, value in module.state_dict().items():
            if not value.is_floating_point() or value.numel() == 0 or bool((value == value.flatten()[0]).all()):
                continue  # counters; ones and zeros of normalisation
            drawn = torch.from_numpy(randoms.generator(name, key).standard_normal(tuple(value.shape)))
            inputs = value[0].numel() if value.dim() > 1 else value.numel()
            value.copy_(drawn * math.sqrt(2 / inputs))


def replace_downloads(record):
    """Replaces the weights that torch.hub would download."""
    load, load_state = torch.hub.load_state_dict_from_url, torch.nn.Module.load_state_dict

    def load_or_fake(url, model_dir=None, *arguments, **options):
        folder = model_dir or os.path.join(torch.hub.get_dir(), "checkpoints")
        name = options.get("file_name") or os.path.basename(url.partition("?")[0])
        if os.path.exists(os.path.join(folder, name)):
            return load(url, model_dir, *arguments, **options)
        record.fake("weights", name)
        return MissingWeights({"telar": name})

    def load_or_settle(self, state_dict, *arguments, **options):
        if isinstance(state_dict, MissingWeights):
            return settle(self, state_dict["telar"])
        return load_state(self, state_dict, *arguments, **options)

    torch.hub.load_state_dict_from_url = load_or_fake
    torch.utils.model_zoo.load_url = load_or_fake
    torch.nn.Module.load_state_dict = load_or_settle
