"""Checks that PyTorch computes the same as Telar: from the same weights and batch, compares the losses of 20
steps.

    bench_step --workload NAME --check start.safetensors | python torch_check.py start.safetensors

Exits with 1 if a loss differs by more than 0.5 % (batch norm over few values amplifies rounding errors; bf16:
by more than 5 % and 0.05).
"""

import json
import struct
import sys

import torch

import torch_steps


def read_safetensors(path):
    """The tensors of a file, all of which are F32."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[slice(*entry["data_offsets"])]), dtype=torch.float32).reshape(entry["shape"])
            for name, entry in header.items()}


def by_name(workload, tensors):
    """The tensors by PyTorch's names. For a plain chain of layers, Telar uses fc1, fc2, …, PyTorch 0, 2, …"""
    names = [name for name, _ in torch_steps.WORKLOADS[workload][0]().named_parameters()]
    if all(name in tensors for name in names):
        return {name: tensors[name] for name in names}
    layers = sorted({name.rpartition(".")[0] for name in tensors}, key=lambda layer: int(layer.strip("abcdefghijklmnopqrstuvwxyz")))
    theirs = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    return {f"{their}.{kind}": tensors[f"{ours}.{kind}"] for their, ours in zip(theirs, layers, strict=True) for kind in ("weight", "bias")}


def main():
    told = json.loads(sys.stdin.read())
    tensors = read_safetensors(sys.argv[1])
    x, y = tensors.pop("batch/x"), tensors.pop("batch/label").long()
    workload = told["workload"]
    step = torch_steps.make_step(workload, False, False, (by_name(workload, tensors), x, y))
    if abs(told["learning_rate"] / torch_steps.LEARNING_RATE - 1) > 1e-6:
        sys.exit(f"{workload}: telar's learning rate is {told['learning_rate']}, PyTorch's {torch_steps.LEARNING_RATE}")
    bf16 = workload.endswith("bf16")
    worst = 0.0
    for number, ours in enumerate(told["losses"], start=1):
        theirs = step().item()
        allowed = max(5e-2 * abs(theirs), 5e-2) if bf16 else max(5e-3 * abs(theirs), 1e-4)
        worst = max(worst, abs(ours - theirs) / allowed)
        if number in (1, 2, 5, 10, 20):
            print(f"{workload}: loss of step {number:2}: telar {ours:.6f}, PyTorch {theirs:.6f}")
    if worst > 1:
        sys.exit(f"{workload}: the losses differ by {worst:.1f} times the allowed difference")


if __name__ == "__main__":
    main()
