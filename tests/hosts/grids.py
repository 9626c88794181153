"""Strategies over processes on two hosts, by MPI and by peers under TLS: each that divides a model must train what one
device trains, and each sends as many bytes as its program says."""

import json
import re
import subprocess
import threading

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
data: {source: synthetic, shape: [1, 28, 28], classes: 32, samples: 960, test_samples: 96, validation: 0}
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
STAGES_EPOCHS = 61
WIRE_STEPS = 10 * (WIRE_EPOCHS[1] - WIRE_EPOCHS[0])
FEW_BYTES = 200_000  # of less, what TCP sends again on a crowded machine and the heads of messages are a larger part
WIRE_TURNS = 5  # on a crowded machine, TCP sends again what is only late
# Heads of messages; of peers, also records of TLS and frames of HTTP/2: 0.03 % to 0.6 % (2026-11-28). Half of the last layer has
# 16 columns, a multiple of what a processor's layouts have: of 5, the zeros with which such a layout ends would be sent, too.
WIRE_TOLERANCE = 0.02
TOLERANCE = 1e-6  # of the test loss: sums over workers have another order. It was about 2 at the beginning


WAYS = ("MPI", "peers")


def train(way, hosts, folder, each, log, words, security):
    """Trains on `each` processes of each host. Returns the exit code."""
    if way == "MPI":
        return start_ranks(hosts, folder, each, log, words).wait(120)
    at = f"{ADDRESSES['left']}:7000"
    first = hosts.start("left", log, [*words, "--workers", str(2 * each), "--coordinate", at, *security])
    others = [hosts.start(host, folder / f"{log.stem}-{host}-{number}.log", [words[0], "work", "--join", at, *security])
              for host in ADDRESSES for number in range(each) if (host, number) != ("left", 0)]
    code = first.wait(120)
    codes = [other.wait(30) for other in others]
    return code if code != 0 else next((one for one in codes if one != 0), 0)


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


def bytes_of_a_step(telar, folder, way, job, each, name, security, expect):
    """What the first host sends: the difference between a long and a short run."""
    sent = []
    with Hosts(ADDRESSES, "", unlimited=ADDRESSES) as hosts:
        for epochs in WIRE_EPOCHS:
            before = hosts.sent("left")
            code = train(way, hosts, folder, each, folder / f"wire-{name}.log",
                         [telar, "train", job, "--output", folder / f"wire-{name}-{epochs}", "--quiet",
                          "--set", f"training.epochs={epochs}"], security)
            expect(code == 0, f"{name}: exit code {code}, not 0")
            sent.append(hosts.sent("left") - before)
    return (sent[1] - sent[0]) / WIRE_STEPS


def bytes_of_a_step_of_stages(telar, folder, way, job, each, name, security, expect):
    """The same, between two moments of one run: at its start, a pipeline measures up to three divisions of its layers, as many
    as their times tell it, which is up to 2 MB."""
    seen, over = [], threading.Event()  # (steps, bytes)
    with Hosts(ADDRESSES, "", unlimited=ADDRESSES) as hosts:
        def look():
            metrics = folder / f"wire-{name}" / "metrics.jsonl"
            while not over.wait(0.02):
                if metrics.exists():
                    seen.append((metrics.read_text().count('"kind":"step"'), hosts.sent("left")))
        looking = threading.Thread(target=look)
        looking.start()
        try:
            code = train(way, hosts, folder, each, folder / f"wire-{name}.log",
                         [telar, "train", job, "--output", folder / f"wire-{name}", "--quiet", "--set", f"training.epochs={STAGES_EPOCHS}",
                          "--set", "output.log_steps=1"], security)
        finally:
            over.set()
            looking.join()
    expect(code == 0, f"{name}: exit code {code}, not 0")
    during = [(steps, sent) for steps, sent in seen if 20 <= steps <= 10 * STAGES_EPOCHS - 20]
    expect(during and during[-1][0] - during[0][0] >= 300, f"{name}: nobody looked at 300 steps: {during[:1]} to {during[-1:]}")
    return (during[-1][1] - during[0][1]) / (during[-1][0] - during[0][0])


def measure(telar, folder, way, security, expect):
    """Compares what the first host sends in a step with what the program says, over links without a limit, which drop
    nothing. Returns the largest part by which they differ."""
    furthest = 0.0
    for number, (name, (strategy, each)) in enumerate(WIRES.items()):
        job = folder / f"wire-{number}.yaml"
        job.write_text(WIRE_JOB + f"strategy: {strategy}\n")
        expected = said(telar, job, 2 * each, each)
        if way == "peers" and expected < FEW_BYTES:
            continue
        for turn in range(WIRE_TURNS):
            measured = bytes_of_a_step_of_stages if "stages: 2" in strategy else bytes_of_a_step
            step = measured(telar, folder, way, job, each, f"{way}-{number}-{turn}", security, expect)
            apart = step / expected - 1
            print(f"  {name} by {way}: {step:,.0f} bytes a step on the wire, {100 * apart:+.2f} % of {expected:,.0f}", flush=True)
            if abs(apart) <= WIRE_TOLERANCE:
                break
        expect(abs(apart) <= WIRE_TOLERANCE,
               f"{name} by {way}: a step sends {100 * apart:+.1f} % more than the {expected:,.0f} bytes of its program")
        furthest = max(furthest, abs(apart))
    return furthest


def play(telar, folder, rate, security, expect):
    """Returns a sentence; calls `expect(condition, text)` for what must hold. `security`: options for certificates and token."""
    folder.mkdir()
    job = folder / "job.yaml"
    job.write_text(JOB)
    subprocess.run([telar, "train", job, "--output", folder / "single", "--quiet"], check=True, timeout=300)
    single = loss_of(folder / "single")
    furthest = 0.0
    for number, (name, (strategy, each)) in enumerate(GRIDS.items()):
        job.write_text(JOB + f"strategy: {strategy}\n")
        for way in WAYS:
            run = folder / f"run-{way}-{number}"
            with Hosts(ADDRESSES, rate) as hosts:
                code = train(way, hosts, folder, each, folder / f"run-{way}-{number}.log",
                             [telar, "train", job, "--output", run, "--quiet"], security)
            expect(code == 0, f"{name} by {way}: exit code {code}, not 0")
            apart = abs(loss_of(run) - single)
            expect(apart <= TOLERANCE, f"{name} by {way}: the test loss {loss_of(run)} is not {single}, that of one device")
            furthest = max(furthest, apart)
    wires = max(measure(telar, folder, way, security, expect) for way in WAYS)
    return (f"{len(GRIDS)} divided models by MPI and by peers, test losses at most {furthest:.1e} from that of one device; "
            f"{len(WIRES)} strategies, bytes on the wire at most {100 * wires:.1f} % from those of the program")
