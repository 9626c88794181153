"""Times each convolution of ResNet-34's training step alone, through the oneDNN inside PyTorch. This shows
whether a newer oneDNN than the system's makes a difference.

Prints one JSON object per network, element type and layout. It contains the sum of the medians over all
convolutions (forward, gradient of the data, gradient of the weights), as oneDNN measures them, and the
kernels that oneDNN chose.

    python torch_convolutions.py [--threads 2] [--repetitions 15]

Compare with `limit_products_ms` of `bench_step --workload resnet34_3x3 --json`, which is the same sum, plus
the last layer, by Telar's oneDNN.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys

NETWORKS = {"resnet34_3x3": (32, 32, "3x3"), "resnet34_7x7": (32, 32, "7x7"), "resnet34_128": (8, 128, "7x7")}
LAYOUTS = ("blocked", "channels_last")


def convolutions(batch, size, stem):
    """Yields (shape of x, shape of the weights, stride, padding, count) of ResNet-34. The first is the stem,
    which has no gradient of the data."""
    first = (64, 3, 3, 3) if stem == "3x3" else (64, 3, 7, 7)
    stride = 1 if stem == "3x3" else 2
    yield (batch, 3, size, size), first, stride, first[2] // 2, 1
    size //= 1 if stem == "3x3" else 4
    channels = 64
    for out, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        rest = 2 * blocks
        if out != channels:
            yield (batch, channels, size, size), (out, channels, 3, 3), 2, 1, 1
            yield (batch, channels, size, size), (out, channels, 1, 1), 2, 0, 1
            size = (size + 1) // 2
            rest -= 1
        yield (batch, out, size, size), (out, out, 3, 3), 1, 1, rest
        channels = out


def run(network, dtype, layout, repetitions):
    """Runs the convolutions; in a separate process, in which oneDNN prints what it executes."""
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    kind = getattr(torch, dtype)
    form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    for i, (x_shape, w_shape, stride, padding, count) in enumerate(convolutions(*NETWORKS[network])):
        x = torch.rand(x_shape, dtype=kind).to(memory_format=form).requires_grad_(i > 0)
        w = torch.rand(w_shape, dtype=kind).to(memory_format=form).requires_grad_()
        print(f"convolution {count}", flush=True)
        for _ in range(repetitions):
            y = torch.nn.functional.conv2d(x, w, None, stride, padding)
            y.backward(torch.ones_like(y))
        sys.stdout.flush()


def measure(network, dtype, layout, arguments):
    environment = dict(os.environ, ONEDNN_VERBOSE="profile_exec", OMP_NUM_THREADS=str(arguments.threads))
    command = [sys.executable, __file__, "--run", network, dtype, layout, "--repetitions", str(arguments.repetitions)]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    version, count, times, kernels = "", 0, collections.defaultdict(list), set()
    number = 0
    for line in said.splitlines():
        if line.startswith("convolution "):
            number, count = number + 1, int(line.split()[1])
        elif "info,oneDNN v" in line:
            version = line.split("oneDNN v")[1].split()[0]
        elif ",exec," in line and ",convolution," in line:
            fields = line.split(",")
            at = fields.index("convolution")
            kernels.add(fields[at + 1])
            times[number, count, fields[at + 2]].append(float(fields[-1]))
    total = sum(count * statistics.median(each[3:]) for (_, count, _), each in times.items())
    print(json.dumps({"kind": "convolutions", "framework": f"oneDNN {version} in PyTorch", "workload": network, "dtype": dtype,
                      "layout": layout, "sum_ms": round(total, 2), "kernels": sorted(kernels)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--run", nargs=3, metavar=("NETWORK", "DTYPE", "LAYOUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(*arguments.run, arguments.repetitions)
        return
    for network in NETWORKS:
        for dtype in ("float32", "bfloat16"):
            for layout in LAYOUTS:
                measure(network, dtype, layout, arguments)


if __name__ == "__main__":
    main()
