"""Strategies that divide a model, over MPI processes on two hosts: each must train what one device trains."""

import json
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
TOLERANCE = 1e-6  # of the test loss: sums over workers have another order. It was about 2 at the beginning


def loss_of(run):
    return json.loads((run / "summary.json").read_text())["test_loss"]


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
    return f"{len(GRIDS)} divided models, test losses at most {furthest:.1e} from that of one device"
