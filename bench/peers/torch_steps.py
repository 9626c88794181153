"""Times whole training steps (zero_grad, forward, loss, backward, optimizer) of PyTorch in eager mode.

    python torch_steps.py [--threads 2] [--seconds 1] [--memory] WORKLOAD...

The tensors are in memory beforehand. Each workload is timed in every setting that may be faster: layout NCHW
or channels_last, default or fused optimizer. With --memory, each workload runs a few steps in this process,
which must be fresh, and the peak of its memory is printed instead. Prints one JSON object per line.
"""

import argparse
import contextlib

import torch
from torch import nn

import torch_models
from timing import memory, print_environment, print_line, print_times, time_steps


LEARNING_RATE = 1e-5


def adam(parameters, fused):
    return torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=fused)


def momentum(parameters, fused):
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9, fused=fused)


# name: (model, shape of the input, optimizer, bf16 compute)
WORKLOADS = {
    "mlp32": (torch_models.mlp, (32, 784), adam, False),
    "mlp128": (torch_models.mlp, (128, 784), adam, False),
    "convnet": (torch_models.convnet, (64, 1, 28, 28), adam, False),
    "resnet34_7x7": (lambda: torch_models.ResNet34("7x7"), (32, 3, 32, 32), momentum, False),
    "resnet34_7x7_bf16": (lambda: torch_models.ResNet34("7x7"), (32, 3, 32, 32), momentum, True),
    "resnet34_3x3": (lambda: torch_models.ResNet34("3x3"), (32, 3, 32, 32), momentum, False),
    "resnet34_3x3_bf16": (lambda: torch_models.ResNet34("3x3"), (32, 3, 32, 32), momentum, True),
    "resnet34_128": (lambda: torch_models.ResNet34("7x7"), (8, 3, 128, 128), momentum, False),
    "resnet34_128_bf16": (lambda: torch_models.ResNet34("7x7"), (8, 3, 128, 128), momentum, True),
}


def make_step(workload, channels_last, fused, start=None):
    """A function that makes one step and returns its loss. `start`: the initial (weights by name, x, y); by
    default they are random."""
    build, shape, make_optimizer, bf16 = WORKLOADS[workload]
    torch.manual_seed(1)
    model = build().train()
    x = torch.randn(shape)
    y = torch.randint(0, 10, (shape[0],))
    if start is not None:
        weights, x, y = start
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model.parameters(), fused)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        precision = torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else contextlib.nullcontext()
        with precision:
            loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def settings(workload):
    layouts = (False, True) if len(WORKLOADS[workload][1]) == 4 else (None,)
    for channels_last in layouts:
        for fused in (False, True):
            words = [] if channels_last is None else ["channels_last" if channels_last else "NCHW"]
            words.append("fused optimizer" if fused else "default optimizer")
            yield ", ".join(words), bool(channels_last), fused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum time of each setting")
    parser.add_argument("--memory", choices=("NCHW", "channels_last"), help="print the peak memory in this layout")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print_environment("pytorch", torch.__version__, arguments.threads)
    for workload in arguments.workloads:
        if arguments.memory:
            before = memory("VmRSS")
            step = make_step(workload, arguments.memory == "channels_last", fused=False)
            for _ in range(3):
                step()
            print_line({
                "kind": "memory", "framework": "pytorch", "workload": workload, "setting": arguments.memory,
                "peak_bytes": memory("VmHWM"), "after_import_bytes": before,
            })
            continue
        for setting, channels_last, fused in settings(workload):
            step = make_step(workload, channels_last, fused)
            print_times("pytorch", workload, setting, time_steps(step, min_seconds=arguments.seconds))


if __name__ == "__main__":
    main()
