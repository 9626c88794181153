#!/usr/bin/env python3
"""Steps of telar.torch beside the same steps in PyTorch, eager and compiled (torch.compile), in turns.

    PYTHONPATH=build/release/python python bench/python/steps.py [--bf16] [--rounds N] [--eager] [--small] [--json] [MODEL...]

The models are those of tests/python/models.py, in the sizes below, or with --small in the tests' sizes. Both sides have all
cores; the optimizer is Adam. With --bf16, Telar has precision="bf16" and PyTorch autocast. --eager leaves torch.compile out,
which takes minutes to compile. A round is as many steps as take half a second, at least 3; the figures are the rounds'
medians. "Products" are the step's matrix products and convolutions, each timed by the engine within a step of Telar's.
--json prints a line of JSON for each model, as scripts/bench-peers collects them (bench/peers/table.py).
"""

import argparse
import copy
import os
import statistics
import sys
import time
import warnings

import numpy
import torch
import torchvision

import telar.torch as tt
from telar.torch.capture import WithLoss

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tests/python"), os.path.join(HERE, "../peers")]
from models import MODELS, images  # noqa: E402: the folder must be on the path first
from timing import print_environment, print_line  # noqa: E402


def small_vit():
    net = torchvision.models.VisionTransformer(64, 8, 4, 4, 192, 768, num_classes=10)
    return net, torch.nn.CrossEntropyLoss(), lambda n: images(n, 3, 64)


def mobilenet():
    net = torchvision.models.mobilenet_v3_small(num_classes=10)
    return net, torch.nn.CrossEntropyLoss(), lambda n: images(n, 3, 96)


# What each one is made by, and its batch.
SIZES = {
    "mingpt": (lambda: MODELS["mingpt"](words=256, length=128, width=256, heads=8, layers=4), 8),
    "vit": (small_vit, 16),
    "unet": (lambda: MODELS["unet"](width=16, size=64), 8),
    "mobilenet_v3_small": (mobilenet, 32),
    "transformer": (lambda: MODELS["transformer"](width=128, heads=4, features=64, length=64), 32),
    "tabular": (lambda: MODELS["tabular"](width=256), 512),
    "lstm_language_model": (lambda: MODELS["lstm_language_model"](words=2000, width=200, hidden=200, length=35), 20),
    "gru_classifier": (lambda: MODELS["gru_classifier"](words=5000, width=64, hidden=128, length=50), 32),
    "bert": (lambda: MODELS["bert"](words=30522, width=128, heads=2, length=128), 16),
}
SMALL = {"mlp": 32, "mingpt": 32, "lstm_language_model": 32, "gru_classifier": 32, "tabular": 256, "transformer": 32, "unet": 8}
PRODUCTS = ("matmul", "linear", "conv", "attention")
ROUND_SECONDS = 0.5


def pytorch_step(module, loss, batch, bf16, compiled):
    optimizer, whole = torch.optim.Adam(module.parameters(), 1e-3), WithLoss(module, loss)
    if compiled:
        whole = torch.compile(whole)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            value, _ = whole(*batch)
        value.backward()
        optimizer.step()

    return step


def seconds_of(run, times):
    began = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - began) / times


def seconds_of_products(step, batch):
    """Medians over 5 steps, summed."""
    arrays, ids = step._arrays(batch), numpy.arange(len(batch[0]))
    steps = [step._session.profile(arrays, ids) for _ in range(5)]
    medians = [(operations[0][0], statistics.median(one[2] for one in operations)) for operations in zip(*steps)]
    return sum(seconds for name, seconds in medians if name.startswith(PRODUCTS))


def measure(make, size, options):
    """The milliseconds of each round by who made the steps, and those of a step's products."""
    torch.manual_seed(0)
    module, loss, draw = make()
    batch = draw(size)
    others = [copy.deepcopy(module) for _ in range(1 if options.eager else 2)]
    step = tt.Step(module, loss, torch.optim.Adam(module.parameters(), 1e-3), precision="bf16" if options.bf16 else "f32")
    runs = [lambda: step(*batch)]
    runs += [pytorch_step(other, loss, batch, options.bf16, i == 1) for i, other in enumerate(others)]
    times = []
    for run in runs:
        seconds_of(run, 3)
        times.append(max(3, round(ROUND_SECONDS / seconds_of(run, 3))))
    rounds = [[seconds_of(run, n) for run, n in zip(runs, times)] for _ in range(options.rounds)]
    milliseconds = [[1e3 * one for one in column] for column in zip(*rounds)]
    return dict(zip(("telar", "eager", "compiled"), milliseconds)), 1e3 * seconds_of_products(step, batch)


def print_text(name, size, milliseconds, products):
    medians = {who: statistics.median(rounds) for who, rounds in milliseconds.items()}
    texts = ["%s %9.3f (%.3f to %.3f)" % (who, medians[who], min(rounds), max(rounds)) for who, rounds in milliseconds.items()]
    ours = medians.pop("telar")
    print("%-20s %4d  %s  %5.2f x the best  products %.3f: %.2f of them"
          % (name, size, "  ".join(texts), min(medians.values()) / ours, products, ours / products), flush=True)


def print_json(name, size, milliseconds, products):
    spans = {who: {"median_ms": round(statistics.median(rounds), 4), "min_ms": round(min(rounds), 4), "max_ms": round(max(rounds), 4)}
             for who, rounds in milliseconds.items()}
    print_line({"kind": "module", "model": name, "batch": size, "rounds": len(milliseconds["telar"]), **spans,
                "products_ms": round(products, 4)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    table = {name: (MODELS[name], size) for name, size in SMALL.items()} if options.small else SIZES
    unknown = [name for name in options.models if name not in table]
    if unknown:
        parser.error("there is no model '%s'; these are: %s" % (unknown[0], ", ".join(table)))
    warnings.filterwarnings("ignore")
    torch.set_num_threads(os.cpu_count())
    if options.json:
        print_environment("pytorch", torch.__version__, torch.get_num_threads())
    for name in options.models or table:
        make, size = table[name]
        (print_json if options.json else print_text)(name + "_bf16" * options.bf16, size, *measure(make, size, options))


if __name__ == "__main__":
    main()
