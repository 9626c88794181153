"""Observes programs that train with PyTorch."""
import random
import sys

import torch

from .. import fakes, files
from . import data, horovod, noise, telar, training


class Observer:
    """Watches what the program does from now on. `settings`: as verify.py writes them."""

    def __init__(self, settings, record):
        self.record = record
        draws = noise.Draws(record)
        noise.without_dropout(record)
        if settings["target"] != "telar":
            noise.without_batch_statistics(record)
        training.without_compilation(record)
        self.steps = training.watch_steps(record, draws)
        training.watch_backward(record)
        training.watch_clipping(record)
        training.watch_wrappers(record)
        data.watch_loaders(record, draws)
        data.watch_parts(record)
        if settings["target"] == "horovod" and settings["world"] > 1:
            horovod.install(self.steps)
        if settings["target"] == "telar" and not settings["replay"]:
            telar.watch_steps(record, draws, self.steps)
        if settings["fake_data"]:
            fakes.install_for_torch(record)
        torch.set_num_threads(settings["threads"])

    def before_print(self):
        self.steps.note_rates()

    @staticmethod
    def seed(number):
        """Processes are seeded by the system, each in its own way; here repeatably."""
        torch.manual_seed(number)
        random.seed(number)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(number)

    @staticmethod
    def watch_saves(watch):
        files.watch_torch_saves(watch, torch)

    def ranks(self):
        """What was observed of each rank in this process."""
        return [self.record.data()]
