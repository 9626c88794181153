#!/usr/bin/env python3
"""Steps that PyTorch computes in two workers of Telar, beside PyTorch's own DistributedDataParallel over gloo with two
processes: the same model, global batch, and one thread a worker. In turns: medians of 3 rounds of 10 steps.

    PYTHONPATH=build/release/python python bench/python/external.py [MODEL] [BATCH] [SIZE]

MODEL: of torchvision (resnet18); BATCH: images of both workers together (32); SIZE: their width and height (64).
"""

import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

ROUNDS, WARM_UP, STEPS = 3, 3, 10


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
                   strategy="mirrored", replicas=2, engine="torch")
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


def run(which, arguments):
    """The median that a run of this script prints."""
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), *map(str, arguments)]
    if which == "telar":
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


def main():
    name, size, width = (sys.argv[1:] + ["resnet18", "32", "64"][len(sys.argv) - 1:])
    arguments = name, int(size), int(width)
    if "BENCH_WHICH" in os.environ:
        (telar_step if os.environ["BENCH_WHICH"] == "telar" else distributed_step)(*arguments)
        return
    times = {"telar": [], "ddp": []}
    for _ in range(ROUNDS):
        for which, found in times.items():
            found.append(run(which, arguments))
    telars, ddps = (statistics.median(found) for found in times.values())
    print(f"{name}, {size} images of {width} x {width}: Telar {telars * 1e3:.1f} ms ({min(times['telar']) * 1e3:.1f} to "
          f"{max(times['telar']) * 1e3:.1f}), DDP {ddps * 1e3:.1f} ms ({min(times['ddp']) * 1e3:.1f} to {max(times['ddp']) * 1e3:.1f}), "
          f"{ddps / telars:.2f} of DDP's speed")


main()
