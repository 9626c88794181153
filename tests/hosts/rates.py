"""What two processes on two hosts make of the link between them: gradients of 100 MB summed in every step, by MPI, by
peers, and by peers under TLS, in turns."""

import json
import statistics

import grids
from hosts import Hosts

JOB = """
model: {name: mlp, options: {hidden: [5000, 4200]}}
data: {source: synthetic, shape: [1, 8, 8], classes: 10, samples: 64, test_samples: 8, validation: 0}
optimizer: {name: sgd, learning_rate: 0.001}
training: {batch: 8, epochs: 2}
output: {tensorboard: false, checkpoint_epochs: 0}
strategy: {name: mirrored, replicas: 1, threads: 1}
"""
WAYS = {"MPI": ("MPI", False), "peers": ("peers", False), "peers, TLS": ("peers", True)}


def play(telar, folder, rate, rounds, security, expect):
    """Returns the medians as a sentence."""
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB)
    milliseconds = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in list(WAYS) if turn % 2 == 0 else list(WAYS)[::-1]:
            by, secure = WAYS[way]
            run = folder / f"{by}-{secure}-{turn}"
            with Hosts(grids.ADDRESSES, rate) as hosts:
                code = grids.train(by, hosts, folder, 1, folder / f"{run.name}.log",
                                   [telar, "train", folder / "job.yaml", "--output", run, "--quiet"],
                                   security if secure else ["--insecure-network"])
            expect(code == 0, f"{way}: exit code {code}, not 0")
            summary = json.loads((run / "summary.json").read_text())
            milliseconds[way].append(summary["step_ms_median"])
            megabytes = summary["gradient_bytes"] / 1e6
    # With two processes, each sends half of the values, and half of the sums.
    return f"{megabytes:.0f} MB of gradients at {rate}: " + "; ".join(
        f"{way} {statistics.median(all_):.0f} ms a step ({min(all_):.0f} to {max(all_):.0f}), "
        f"{megabytes / statistics.median(all_) * 1e3:.0f} MB/s in each direction" for way, all_ in milliseconds.items())
