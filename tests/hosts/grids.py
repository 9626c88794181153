"""Strategies over MPI processes on two hosts: each that divides a model must train what one device trains, and each
sends as many bytes as its program says."""

import json
import re
import subprocess

from hosts import Hosts
from ranks import start_ranks

ADDRESSES = {"left": "10.88.0.11", "right": "10.88.0.12"}
JOB = """
model: {name: mlp, options: {hidden: [64, 64, 64]}}
data: {source: synthetic, shape: [1, 8, 8], classes: 10, samples: 960, test_samples: 96, validation: 0}
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9}
training: {batch: 48, epochs: 2}
output: {tensorboard: false, checkpoint_epochs: 0}
"""
# The strategy, and the processes on each host.
GRIDS = {
    "pipeline of 4": ("{name: pipeline, stages: 4, threads: 1, micro_batches: 4}", 1),
    "1 x 2 x 2 in 2 processes": ('{name: hybrid, data: 1, model: 2, stages: 2, threads: 1, micro_batches: 2, split: ["*=columns"]}', 1),
    "1 x 2 x 2 in 4 processes": ('{name: hybrid, data: 1, model: 2, stages: 2, threads: 1, micro_batches: 2, split: ["*=columns"]}', 2),
    "2 x 2 x 1 in 4 processes": ('{name: hybrid, data: 2, model: 2, stages: 1, threads: 1, split: ["*=columns"]}', 2),
    "sharded, stage 3": ("{name: sharded, stage: 3, replicas: 1, threads: 1, whole_below: 0}", 1),
}
WIRE_JOB = """
model: {name: mlp, options: {hidden: [256, 256, 256]}}
data: {source: synthetic, shape: [1, 28, 28], classes: 10, samples: 960, test_samples: 96, validation: 0}
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9}
training: {batch: 96}
output: {tensorboard: false, checkpoint_epochs: 0}
"""
WIRES = {
    "mirrored": ("{name: mirrored, replicas: 2, threads: 1}", 1),
    "sharded, stage 1": ("{name: sharded, stage: 1, replicas: 1, threads: 1}", 1),
    "sharded, stage 2": ("{name: sharded, stage: 2, replicas: 1, threads: 1, whole_below: 0}", 1),
    "sharded, stage 3": ("{name: sharded, stage: 3, replicas: 1, threads: 1, whole_below: 0}", 1),
    "tensor": ('{name: tensor, ways: 2, threads: 1, split: ["fc1=columns", "fc2=rows", "fc3=columns", "fc4=rows"]}', 1),
    "local_sgd": ("{name: local_sgd, replicas: 1, threads: 1, average_every: 5}", 1),
    "pipeline": ("{name: pipeline, stages: 2, threads: 1, micro_batches: 4}", 1),
    "2 x 2 x 1 in 4 processes": ('{name: hybrid, data: 2, model: 2, stages: 1, threads: 1, split: ["*=columns"]}', 2),
    "1 x 2 x 2 in 2 processes": ('{name: hybrid, data: 1, model: 2, stages: 2, threads: 1, micro_batches: 2, split: ["*=columns"]}', 1),
}
WIRE_EPOCHS = (1, 7)
WIRE_STEPS = 10 * (WIRE_EPOCHS[1] - WIRE_EPOCHS[0])
WIRE_TOLERANCE = 0.02
TOLERANCE = 1e-6  # of the test loss: sums over workers have another order. It was about 2 at the beginning


def loss_of(run):
    return json.loads((run / "summary.json").read_text())["test_loss"]


def said(telar, job, processes, each):
    """The bytes that the first host sends the second in a step, as `telar show` says."""
    text = subprocess.run([telar, "show", job, "--processes", str(processes)], check=True, capture_output=True, text=True).stdout
    table = text.split("bytes sent in a step")[1]
    period = int(match[1]) if (match := re.search(r"once in (\d+) steps", table)) else 1
    links = re.findall(r"^ +(\d+) +(\d+) +([\d,]+)$", table, re.M)
    return sum(int(number.replace(",", "")) for sender, receiver, number in links
               if int(sender) < each <= int(receiver)) / period


def measure(telar, folder, expect):
    """Compares what the first host sends in a step with what the program says, over links without a limit, which drop
    nothing. Returns a sentence."""
    furthest = 0.0
    for number, (name, (strategy, each)) in enumerate(WIRES.items()):
        job = folder / f"wire-{number}.yaml"
        job.write_text(WIRE_JOB + f"strategy: {strategy}\n")
        sent = []
        with Hosts(ADDRESSES, "", unlimited=ADDRESSES) as hosts:
            for epochs in WIRE_EPOCHS:
                before = hosts.sent("left")
                code = start_ranks(hosts, folder, each, folder / f"wire-{number}.log",
                                   [telar, "train", job, "--output", folder / f"wire-{number}-{epochs}", "--quiet",
                                    "--set", f"training.epochs={epochs}"]).wait(120)
                expect(code == 0, f"{name}: mpirun ended with exit code {code}, not 0")
                sent.append(hosts.sent("left") - before)
        expected = said(telar, job, 2 * each, each)
        apart = (sent[1] - sent[0]) / WIRE_STEPS / expected - 1
        print(f"  {name}: {(sent[1] - sent[0]) / WIRE_STEPS:,.0f} bytes a step on the wire, {100 * apart:+.2f} % of {expected:,.0f}", flush=True)
        expect(abs(apart) <= WIRE_TOLERANCE,
               f"{name}: a step sends {100 * apart:+.1f} % more than the {expected:,.0f} bytes of its program")
        furthest = max(furthest, abs(apart))
    return f"{len(WIRES)} strategies, bytes on the wire at most {100 * furthest:.1f} % from those of the program"


def play(telar, folder, rate, expect):
    """Returns a sentence; calls `expect(condition, text)` for what must hold."""
    folder.mkdir()
    job = folder / "job.yaml"
    job.write_text(JOB)
    subprocess.run([telar, "train", job, "--output", folder / "single", "--quiet"], check=True, timeout=300)
    single = loss_of(folder / "single")
    furthest = 0.0
    for number, (name, (strategy, each)) in enumerate(GRIDS.items()):
        run = folder / f"run-{number}"
        job.write_text(JOB + f"strategy: {strategy}\n")
        with Hosts(ADDRESSES, rate) as hosts:
            code = start_ranks(hosts, folder, each, folder / f"run-{number}.log",
                               [telar, "train", job, "--output", run, "--quiet"]).wait(120)
        expect(code == 0, f"{name}: mpirun ended with exit code {code}, not 0")
        apart = abs(loss_of(run) - single)
        expect(apart <= TOLERANCE, f"{name}: the test loss {loss_of(run)} is not {single}, that of one device")
        furthest = max(furthest, apart)
    wires = measure(telar, folder, expect)
    return f"{len(GRIDS)} divided models, test losses at most {furthest:.1e} from that of one device; {wires}"
