#!/usr/bin/env python3
"""Steps that PyTorch computes in two workers of Telar, beside PyTorch's own DistributedDataParallel over gloo with two
processes: the same model, global batch, and one thread a worker. In turns: medians of 3 rounds of 10 steps.
And Downpour with one server: images a second of two workers beside one, each with a thread and with batches of half the size,
in turns, in the second of two epochs of 40 batches.

    PYTHONPATH=build/release/python python bench/python/external.py [MODEL] [BATCH] [SIZE]

MODEL: of torchvision (resnet18); BATCH: images of both workers together (32); SIZE: their width and height (64).
"""

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

ROUNDS, WARM_UP, STEPS, BATCHES = 3, 3, 10, 40


def model_and_batch(name, size, width):
    import torchvision
    torch.manual_seed(0)
    module = getattr(torchvision.models, name)(num_classes=10)
    return module, torch.randn(size, 3, width, width), torch.randint(0, 10, (size,))


def median_of(step):
    times = []
    for _ in range(WARM_UP + STEPS):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times[WARM_UP:])


def telar_step(name, size, width):
    import telar.torch as tt
    module, images, labels = model_and_batch(name, size, width)
    step = tt.Step(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.01, momentum=0.9), threads=2,
                   strategy="mirrored", replicas=2, engine="torch", batch_norm="local")
    print(median_of(lambda: step(images, labels)))


def distributed_step(name, size, width):
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    module, images, labels = model_and_batch(name, size // 2, width)
    parallel = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.SGD(parallel.parameters(), 0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        criterion(parallel(images), labels).backward()
        optimizer.step()

    found = median_of(step)
    if rank == 0:
        print(found)
    torch.distributed.destroy_process_group()


def downpour(workers, name, size, width):
    """Prints the images a second of Downpour."""
    import telar.torch as tt
    module, images, labels = model_and_batch(name, size // 2, width)
    history = tt.fit(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.001), [(images, labels)] * BATCHES,
                     epochs=2, strategy="downpour", workers=workers, servers=1, threads=workers, engine="torch", progress=False)
    print(history[-1]["samples_per_second"])


def run(which, arguments):
    """The number that a run of this script prints."""
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), *map(str, arguments)]
    if which != "ddp":
        ranks = [{}]
    else:
        port = str(20000 + os.getpid() % 20000)
        ranks = [{"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} for rank in (0, 1)]
    started = [subprocess.Popen(command, env=os.environ | {"BENCH_WHICH": which} | rank, stdout=subprocess.PIPE, text=True)
               for rank in ranks]
    texts = [process.communicate()[0] for process in started]
    if any(process.returncode != 0 for process in started):
        sys.exit(f"{which}: it ended with {[process.returncode for process in started]}")
    return float("".join(texts))


def in_turns(choices, arguments):
    """For each choice the median of the rounds, the least and the most."""
    found = {which: [] for which in choices}
    for _ in range(ROUNDS):
        for which, numbers in found.items():
            numbers.append(run(which, arguments))
    return [(statistics.median(numbers), min(numbers), max(numbers)) for numbers in found.values()]


def milliseconds(median, least, most):
    return f"{median * 1e3:.1f} ms ({least * 1e3:.1f} to {most * 1e3:.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="resnet18")
    parser.add_argument("batch", nargs="?", type=int, default=32)
    parser.add_argument("size", nargs="?", type=int, default=64)
    options = parser.parse_args()
    arguments = name, size, width = options.model, options.batch, options.size
    if size < 2 or size % 2 or width < 1:
        parser.error(f"a batch of {size} images of {width} x {width}: the batch must be even, the size 1 or more")
    which = os.environ.get("BENCH_WHICH")
    if which is not None:
        steps = {"telar": telar_step, "ddp": distributed_step, "downpour_1": functools.partial(downpour, 1),
                 "downpour_2": functools.partial(downpour, 2)}
        steps[which](*arguments)
        return
    telar, ddp = in_turns(["telar", "ddp"], arguments)
    print(f"{name}, {size} images of {width} x {width}: Telar {milliseconds(*telar)}, DDP {milliseconds(*ddp)}, "
          f"{ddp[0] / telar[0]:.2f} of DDP's speed")
    one, two = in_turns(["downpour_1", "downpour_2"], arguments)
    print(f"Downpour, images a second: two workers {two[0]:.0f} ({two[1]:.0f} to {two[2]:.0f}), "
          f"one {one[0]:.0f} ({one[1]:.0f} to {one[2]:.0f}), {two[0] / one[0]:.2f} times")


main()
