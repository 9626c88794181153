#!/usr/bin/env python3
"""Steps of telar.torch beside the same steps in PyTorch's eager mode, in turns: medians of 7 rounds of 10 steps.

    PYTHONPATH=build/release/python python bench/python/steps.py [MODEL:BATCH...]

The models are those of tests/python/models.py. Both have all cores; the optimizer is Adam.
"""

import copy
import os
import statistics
import sys
import time

import torch

import telar.torch as tt
from telar.torch.capture import WithLoss

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/python"))
from models import MODELS  # noqa: E402: the folder must be on the path first

DEFAULT = ["mlp:32", "mingpt:32", "lstm_language_model:32", "gru_classifier:32", "tabular:256", "transformer:32", "unet:8"]
ROUNDS, STEPS = 7, 10


def measured(name, size):
    """Medians of (telar, PyTorch) in seconds for a step."""
    torch.manual_seed(0)
    module, loss, make = MODELS[name]()
    batch, other = make(size), copy.deepcopy(module)
    step = tt.Step(module, loss, torch.optim.Adam(module.parameters(), 1e-3))
    optimizer, whole = torch.optim.Adam(other.parameters(), 1e-3), WithLoss(other, loss)

    def eager():
        optimizer.zero_grad()
        value, _ = whole(*batch)
        value.backward()
        optimizer.step()

    times = ([], [])
    for number in range(ROUNDS + 1):
        for which, run in zip(times, (lambda: step(*batch), eager)):
            began = time.perf_counter()
            for _ in range(STEPS):
                run()
            if number > 0:  # the first round warms up
                which.append((time.perf_counter() - began) / STEPS)
    return [statistics.median(one) for one in times]


for argument in sys.argv[1:] or DEFAULT:
    model, batch_size = argument.split(":")
    telars, pytorchs = measured(model, int(batch_size))
    print(f"{model:22s} batch {batch_size:>4s}  telar {telars * 1e3:8.3f} ms  PyTorch {pytorchs * 1e3:8.3f} ms"
          f"  {pytorchs / telars:5.2f} x", flush=True)
