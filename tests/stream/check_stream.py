#!/usr/bin/env python3
"""Trains from a topic of a real broker (Tansu) and compares with training from files.

    check_stream.py TELAR [CHECK or part of them...]

Without the broker (`scripts/setup stream` installs it) the exit code is 77.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

import broker as brokers

TELAR = sys.argv[1]
CERTS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "certs"
MPI = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def start(*words, **more):
    return subprocess.Popen([*words], env=dict(brokers.environment(), **MPI), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **more)


def finish(process, code=0, seconds=120):
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError("%s does not end:\n%s" % (process.args, output)) from None
    expect(process.returncode == code, "%s: exit code %s, not %d:\n%s" % (process.args, process.returncode, code, output))
    return output


def run(*words, code=0):
    return finish(start(*words), code)


def telar(*words, code=0):
    return run(TELAR, *words, code=code)


def publish(broker, topic, data, *words):
    return telar("publish", data, "--brokers", broker.address, "--topic", topic, *words)


def steps(folder):
    """The losses of the steps that metrics.jsonl of a run has."""
    found = {}
    try:
        text = (pathlib.Path(folder) / "metrics.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return found
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # is being written
        if entry["kind"] == "step":
            found[entry["step"]] = entry["loss"]
    return found


def weights(folder):
    """All parameters of the newest checkpoint of a run, one after another."""
    newest = sorted((pathlib.Path(folder) / "checkpoints").iterdir())[-1]
    data = (newest / "model.safetensors").read_bytes()
    header = struct.unpack("<Q", data[:8])[0]
    numbers = data[8 + header:]
    return struct.unpack("<%df" % (len(numbers) // 4), numbers)


def uses(folder, what="used"):
    """How often the steps of a run have used each (partition, offset), or left it out."""
    counts = {}
    for line in (pathlib.Path(folder) / "offsets.jsonl").read_text(encoding="utf-8").splitlines():
        for used in json.loads(line)[what].split():
            partition, offsets = used.split(":")
            first, end = map(int, offsets.split("-"))
            for offset in range(first, end):
                counts[int(partition), offset] = counts.get((int(partition), offset), 0) + 1
    return counts


def expect_each_once(folder, partitions, messages):
    counts = uses(folder)
    right = {(n % partitions, n // partitions) for n in range(messages)}
    expect(set(counts) == right, "missing: %s; of another topic: %s" % (sorted(right - set(counts))[:5],
                                                                        sorted(set(counts) - right)[:5]))
    twice = sorted(key for key, count in counts.items() if count != 1)
    expect(not twice, "used twice: %s" % twice[:5])


def expect_alike(a, b, most, what):
    expect(len(a) == len(b), "%s: %d and %d" % (what, len(a), len(b)))
    worst = max(abs(x - y) for x, y in zip(a, b))
    expect(worst <= most, "%s differ by %g" % (what, worst))


def write_npy(path, rows):
    width = len(rows[0])
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), width)
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for row in rows:
            file.write(struct.pack("<%df" % width, *row))


COMMON = """
model: {name: mlp, options: {hidden: [32]}}
optimizer: {name: sgd, learning_rate: 0.05}
training: {epochs: 2, batch: 32}
"""


def losses_are_those_of_the_file(broker, folder):
    """single, mirrored over threads and over processes, parameter servers; uneven partitions; images of bytes."""
    images = "data: {source: fashion-mnist, limit: 1000, validation: 0, shuffle: false}\n"
    (folder / "file.yaml").write_text(COMMON + images, encoding="utf-8")
    publish(broker, "images", "fashion-mnist", "--set", "data.limit=1000", "--dtype", "u8", "--partitions", "3",
            "--bots", "3")
    job = COMMON + """
data: {source: kafka, brokers: "%s", topic: images, dtype: u8, mean: [0.2860], std: [0.3530], end: now,
  test_source: fashion-mnist, group: trainers, audit: true}
""" % broker.address
    (folder / "topic.yaml").write_text(job, encoding="utf-8")
    mirrored = ["--set", "strategy={name: mirrored, replicas: 2}"]
    processes = ["mpirun", "--oversubscribe", "-n", "2"]
    servers = ["--set", "strategy={name: sync_ps, workers: 2, servers: 2, threads: [1]}"]
    for name, file, strategy, before in (("single", "single", [], []), ("mirrored", "mirrored", mirrored, []),
                                         ("processes", "mirrored", ["--set", "strategy=mirrored"], processes),
                                         ("servers", "single", servers, [])):
        file, topic = folder / ("file-" + file), folder / ("topic-" + name)
        if not file.exists():
            telar("train", str(folder / "file.yaml"), "--output", str(file), "--set", "strategy.threads=1", *strategy)
        output = run(*before, TELAR, "train", str(folder / "topic.yaml"), "--output", str(topic), "--set",
                     "strategy.threads=1", *strategy)
        expect("samples: topic 'images' with 3 partitions, up to 1000 messages" in output, output)
        expect(len(steps(file)) == 64, "%s: %d steps" % (name, len(steps(file))))
        expect_alike(list(steps(file).values()), list(steps(topic).values()), 1e-5, "the losses under " + name)
        results = [json.loads((one / "summary.json").read_text(encoding="utf-8")) for one in (file, topic)]
        expect_alike(*([r["test_accuracy"]] for r in results), 0.002, "the test accuracies under " + name)
        expect(set(uses(topic).values()) == {2}, "each message is used once in each epoch")


def formats_are_read(broker, folder):
    """json and csv give the losses of raw."""
    found = []
    for form in ("raw", "json", "csv"):
        publish(broker, form, "synthetic", "--format", form, "--partitions", "2", "--set", "data.samples=200",
                "--set", "data.shape=[6]", "--set", "data.classes=3")
        (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: %s, format: %s, shape: [6], classes: 3, end: now}
""" % (broker.address, form, form), encoding="utf-8")
        telar("train", str(folder / "job.yaml"), "--output", str(folder / form))
        found.append(list(steps(folder / form).values()))
    expect_alike(found[0], found[1], 1e-5, "json")
    expect_alike(found[0], found[2], 1e-5, "csv")


def records_are_read(broker, folder):
    """Avro and protobuf give the losses of the same rows as text; their bytes are written here, by their specifications."""
    rows = [(random.Random(n).random(), n / 100, n % 3) for n in range(100)]
    single = [tuple(struct.unpack("<ff", struct.pack("<ff", x, y))) + (label,) for x, y, label in rows]
    (folder / "row.avsc").write_text(json.dumps({"type": "record", "name": "Row", "fields": [
        {"name": name, "type": kind} for name, kind in (("y", "float"), ("x", "double"), ("label", "int"))]}),
        encoding="utf-8")
    (folder / "row.proto").write_text("""syntax = "proto3"; package rows;
message Row { double x = 1; float y = 2; uint32 label = 3; }""", encoding="utf-8")
    subprocess.run(["protoc", "--proto_path=" + str(folder), "--descriptor_set_out=" + str(folder / "row.desc"),
                    "row.proto"], check=True)
    avro = [b"\0\0\0\0\7" + struct.pack("<fd", y, x) + bytes([2 * label]) for x, y, label in single]
    protobuf = [b"\0\0\0\0\7\0\x09" + struct.pack("<d", x) + b"\x15" + struct.pack("<f", y) + bytes([0x18, label])
                for x, y, label in single]
    produce(broker, "rows.csv", 2, ["%.9g,%.9g,%d" % row for row in single])
    produce(broker, "rows.avro", 2, [record.hex() for record in avro], hexadecimal=True)
    produce(broker, "rows.protobuf", 2, [message.hex() for message in protobuf], hexadecimal=True)
    found = []
    for form, more in (("csv", ""), ("avro", "schema: %s, schema_ids: [7]," % (folder / "row.avsc")),
                       ("protobuf", "descriptor: %s, message: rows.Row, schema_ids: [7]," % (folder / "row.desc"))):
        (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: rows.%s, format: %s, %s shape: [2], classes: 3, end: now%s}
""" % (broker.address, form, form, more, "" if form == "csv" else ", fields: [x, y]"), encoding="utf-8")
        telar("train", str(folder / "job.yaml"), "--output", str(folder / form))
        found.append(list(steps(folder / form).values()))
    expect_alike(found[0], found[1], 1e-5, "avro")
    expect_alike(found[0], found[2], 1e-5, "protobuf")


def killed_runs_use_every_message_once(broker, folder):
    """Each message has a feature of its own, so its weight counts how often the message was used."""
    messages = 160
    rows = [[float(i == n) for i in range(messages)] for n in range(messages)]
    write_npy(folder / "x.npy", rows)
    write_npy(folder / "y.npy", [[random.Random(n).random()] for n in range(messages)])
    source = "source: npy, path: %s, label_path: %s, classes: 0" % (folder / "x.npy", folder / "y.npy")
    (folder / "file.yaml").write_text("""
model: {layers: [{type: linear, features: 1, bias: false}]}
data: {%s, validation: 0, shuffle: false, normalise: false}
optimizer: {name: sgd, learning_rate: 0.3}
training: {epochs: 1, batch: 4}
strategy: {threads: 1}
""" % source, encoding="utf-8")
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"))
    (folder / "topic.yaml").write_text("""
model: {layers: [{type: linear, features: 1, bias: false}]}
data: {source: kafka, brokers: "%s", topic: killed, shape: [%d], classes: 0, audit: true, group: killed}
optimizer: {name: sgd, learning_rate: 0.3}
training: {epochs: 2, epoch_steps: %d, batch: 4}
strategy: {name: mirrored, replicas: 2, threads: 1}
output: {checkpoint_steps: 3, checkpoint_epochs: 0}
""" % (broker.address, messages, messages // 8), encoding="utf-8")
    publisher = start(TELAR, "publish", str(folder / "file.yaml"), "--brokers", broker.address, "--topic", "killed",
                      "--partitions", "4", "--bots", "2", "--rate", "60")
    wait_for_topic(broker, "killed")
    train = [TELAR, "train", str(folder / "topic.yaml"), "--output", str(folder / "topic"), "--resume"]
    for kill_at, checkpoints in ((8, 0), (17, 3), (29, 3)):  # all steps before the first kill are lost
        process = start(*train, "--set", "output.checkpoint_steps=%d" % checkpoints)
        wait_until(lambda at=kill_at: max(steps(folder / "topic"), default=0) >= at, "step %d" % kill_at)
        process.kill()
        process.communicate()
    finish(publisher)
    run(*train)
    expect_each_once(folder / "topic", 4, messages)
    expect_alike(weights(folder / "file"), weights(folder / "topic"), 1e-6, "the weights")
    expect(committed(broker, "killed", 4) == [messages // 4] * 4, "committed: %s" % committed(broker, "killed", 4))


def one_hot(folder, broker, topic, messages):
    """A file and a topic in which each message has a feature of its own."""
    write_npy(folder / "x.npy", [[float(i == n) for i in range(messages)] for n in range(messages)])
    write_npy(folder / "y.npy", [[1 + random.Random(n).random()] for n in range(messages)])
    model = """
model: {layers: [{type: linear, features: 1, bias: false}]}
optimizer: {name: sgd, learning_rate: 0.3}
training: {epochs: 2, batch: 4}
"""
    (folder / "file.yaml").write_text(model + """
data: {source: npy, path: %s, label_path: %s, classes: 0, validation: 0, shuffle: false, normalise: false}
strategy: {threads: 1}
""" % (folder / "x.npy", folder / "y.npy"), encoding="utf-8")
    publish(broker, topic, str(folder / "file.yaml"), "--partitions", "3")
    (folder / "topic.yaml").write_text(model + """
data: {source: kafka, brokers: "%s", topic: %s, shape: [%d], classes: 0, end: now, audit: true, group: %s}
output: {checkpoint_steps: 10, checkpoint_epochs: 0}
""" % (broker.address, topic, messages, topic), encoding="utf-8")


def workers_of(process, verb=b"work"):
    """The process ids of the workers (or servers) that a training has started."""
    found = []
    threads = pathlib.Path("/proc/%d/task" % process.pid).glob("*/children")  # each has those that it has started
    for pid in [pid for children in threads for pid in children.read_text().split()]:
        try:
            words = pathlib.Path("/proc/%s/cmdline" % pid).read_bytes().split(b"\0")
        except OSError:
            continue
        if verb in words:
            found.append(int(pid))
    return found


def killed_workers_count_every_message_once(broker, folder):
    """With parameter servers: workers are killed again and again, then the coordinator, and the run goes on."""
    one_hot(folder, broker, "leased", 600)
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"))
    for strategy in ("async_sgd", "downpour, push_every: 3, fetch_every: 3", "async_local_sgd, average_every: 3",
                     "parameter_averaging, average_every: 3"):
        run_folder = folder / strategy.partition(",")[0]
        train_while_workers_are_killed(run_folder, [
            TELAR, "train", str(folder / "topic.yaml"), "--output", str(run_folder), "--resume", "--set",
            "strategy={name: %s, workers: 2, servers: 2, threads: [1]}" % strategy])
        expect(set(uses(run_folder).values()) == {2}, "%s: each message is used once in each epoch" % strategy)
        expect_alike(weights(folder / "file"), weights(run_folder), 1e-6, "%s: the weights" % strategy)


def stopped_workers_count_every_message_once(broker, folder):
    """A worker is stopped until its lease is another's, then goes on, while it holds batches; all strategies at once."""
    one_hot(folder, broker, "stopped", 600)
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"))
    strategies = ["sync_ps", "async_sgd", "downpour, push_every: 4, fetch_every: 4", "async_local_sgd, average_every: 4",
                  "parameter_averaging, average_every: 4"]
    runs = [folder / strategy.partition(",")[0] for strategy in strategies]
    begun = [start(TELAR, "train", str(folder / "topic.yaml"), "--output", str(run_folder), "--set",
                   "strategy={name: %s, workers: 2, servers: 2, threads: [1]}" % strategy)
             for run_folder, strategy in zip(runs, strategies)]
    stopped = []
    for process, run_folder in zip(begun, runs):
        wait_until(lambda f=run_folder: max(steps(f), default=0) >= 20, "20 steps of " + run_folder.name)
        stopped.append(workers_of(process)[0])
        os.kill(stopped[-1], signal.SIGSTOP)
    time.sleep(6)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    for process, run_folder in zip(begun, runs):
        finish(process)
        expect(set(uses(run_folder).values()) == {2}, run_folder.name + ": each message is used once in each epoch")
        expect_alike(weights(folder / "file"), weights(run_folder), 1e-6, run_folder.name + ": the weights")


def train_while_workers_are_killed(run_folder, train):
    killed = 0
    process = start(*train)
    for kill_at in range(10, 240, 25):
        wait_until(lambda at=kill_at: max(steps(run_folder), default=0) >= at or process.poll() is not None,
                   "step %d" % kill_at)
        for pid in workers_of(process)[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    process.kill()
    process.communicate()
    run(*train)
    expect(killed >= 4, "only %d workers were killed" % killed)


def a_killed_broker_loses_nothing(_, folder):
    """The broker is killed again and again, and started again on the topics that it has stored."""
    with brokers.Store() as store, brokers.Broker(store) as broker:
        one_hot(folder, broker, "stored", 600)
        telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"))
        run_folder = folder / "run"
        process = start(TELAR, "train", str(folder / "topic.yaml"), "--output", str(run_folder), "--set",
                        "strategy={name: async_sgd, workers: 1, servers: 2, threads: [1]}")
        for kill_at in (20, 80, 140, 200):
            wait_until(lambda at=kill_at: max(steps(run_folder), default=0) >= at, "step %d" % kill_at)
            broker.kill()
        finish(process)
        expect(set(uses(run_folder).values()) == {2}, "each message is used once in each epoch")
        expect_alike(weights(folder / "file"), weights(run_folder), 1e-6, "the weights")


def storm(_, folder):
    """Only by its name: TELAR_STORM faults (40), drawn at random, of a training with TELAR_STORM_STRATEGY (async_sgd). Workers, servers, the coordinator and the broker are killed,
    the broker is frozen, its connections are cut; in the end each message has been used once in each epoch. A run that
    ends, as it must when a server does, is resumed."""
    with brokers.Store() as store, brokers.Broker(store) as broker:
        storm_around(broker, folder)


def storm_around(broker, folder):
    draw = random.Random(int(os.environ.get("TELAR_STORM_SEED", "1")))
    one_hot(folder, broker, "storm", 600)
    run_folder = folder / "run"
    epochs = ["--set", "training.epochs=%d" % 400]
    train = [TELAR, "train", str(folder / "topic.yaml"), "--output", str(run_folder), "--resume", "--set",
             "strategy={name: %s, workers: 2, servers: 2, server_replicas: 1, threads: [1]}" % os.environ.get("TELAR_STORM_STRATEGY", "async_sgd"),
             *epochs]
    process = start(*train)
    weights_of_faults = {"worker": 6, "server": 4, "coordinator": 4, "broker": 4, "frozen": 4, "frozen for 8 s": 1, "cut": 4}
    counts = dict.fromkeys(weights_of_faults, 0)
    ended = 0
    for _ in range(int(os.environ.get("TELAR_STORM", "40"))):
        time.sleep(draw.uniform(0.2, 1))
        expect(process.poll() in (None, 1), "the run has ended with code %s:\n%s"
               % (process.returncode, process.stdout.read() if process.returncode is not None else ""))
        kind = draw.choices(list(counts), list(weights_of_faults.values()))[0]
        if kind in ("worker", "server"):
            found = workers_of(process, b"work" if kind == "worker" else b"serve")
            if not found:
                kind = "coordinator"
            else:
                os.kill(draw.choice(found), signal.SIGKILL)
        counts[kind] += 1
        if kind == "broker":
            broker.kill()
        elif kind == "frozen for 8 s":
            broker.freeze()
            time.sleep(8)
            broker.thaw()
        elif kind == "frozen":
            broker.freeze()
            time.sleep(draw.uniform(0.1, 1))
            broker.thaw()
        elif kind == "cut":
            broker.relay.down()
            time.sleep(draw.uniform(0.1, 1))
            broker.relay.up()
        if kind == "server":
            output = finish(process, 1, 30)
            expect("so messages that its parameters had seen would be missing" in output, output)
        if kind == "coordinator" or process.poll() is not None:
            ended += kind != "coordinator"
            process.kill()
            process.communicate()
            process = start(*train)
    process.send_signal(signal.SIGINT)
    process.communicate()
    done = max(steps(run_folder), default=0) // 150 + 1  # epochs that have begun
    epochs[1] = "training.epochs=%d" % done
    print("storm: %s; the run has ended by itself %d times; %d epochs of 600 messages" % (counts, ended, done))
    finish(start(*train, *epochs), seconds=120)
    expect(set(uses(run_folder).values()) == {done}, "uses: %s" % sorted(set(uses(run_folder).values())))
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "undisturbed"), *epochs)
    expect_alike(weights(folder / "undisturbed"), weights(run_folder), 1e-6, "the weights")


def endless_topics_have_the_losses_of_the_file(broker, folder):
    """Parameter servers and two workers, while the bots still publish; a stop comes between."""
    images = "data: {source: fashion-mnist, limit: 640, validation: 0, shuffle: false}\n"
    (folder / "file.yaml").write_text(COMMON + images, encoding="utf-8")
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"), "--set", "training.epochs=1",
          "--set", "strategy.threads=1")
    publisher = start(TELAR, "publish", "fashion-mnist", "--set", "data.limit=640", "--dtype", "u8", "--partitions", "3",
                      "--brokers", broker.address, "--topic", "endless", "--rate", "400")
    wait_for_topic(broker, "endless")
    (folder / "topic.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: endless, dtype: u8, mean: [0.2860], std: [0.3530], audit: true}
strategy: {name: sync_ps, workers: 2, servers: 2, threads: [1]}
""" % broker.address, encoding="utf-8")
    train = [TELAR, "train", str(folder / "topic.yaml"), "--output", str(folder / "topic"), "--resume",
             "--set", "training={batch: 32, epochs: 2, epoch_steps: 10}"]
    process = start(*train)
    wait_until(lambda: len(steps(folder / "topic")) >= 6, "6 steps")
    process.send_signal(signal.SIGINT)
    finish(process, 130)
    run(*train)
    finish(publisher)
    expect(len(steps(folder / "topic")) == 20, "%d steps" % len(steps(folder / "topic")))
    expect_alike(list(steps(folder / "file").values()), list(steps(folder / "topic").values()), 1e-5, "the losses")
    expect_each_once(folder / "topic", 3, 640)


def workers_follow_the_load(broker, folder):
    """One worker, until twice as many messages arrive as it manages; one of those that join is killed."""
    features, rate = 1000, 0.01
    one_hot(folder, broker, "followed", features)
    run_folder = folder / "run"
    process = start(TELAR, "train", str(folder / "topic.yaml"), "--output", str(run_folder), "--set", "data.end=never",
                    "--set", "training={epochs: 1, batch: 1, epoch_steps: 1000000}", "--set",
                    "optimizer.learning_rate=%g" % rate, "--set", "output.checkpoint_steps=0",
                    "--set", "data.order=arrival", "--set", "data.linger_ms=20", "--set",
                    "strategy={name: downpour, servers: 2, workers: {min: 1, max: 4, lag_seconds: 0.2}, threads: [1]}")
    wait_until(lambda: len(steps(run_folder)) > 0, "a step")
    began = time.monotonic()
    wait_until(lambda: len(steps(run_folder)) == features, "all steps")
    twice = 2 * features / max(0.05, time.monotonic() - began)
    publisher = start(TELAR, "publish", str(folder / "file.yaml"), "--brokers", broker.address, "--topic", "followed",
                      "--loop", "--rate", "%g" % twice)
    wait_until(lambda: len(workers_of(process)) > 1 or process.poll() is not None, "a second worker")
    os.kill(workers_of(process)[-1], signal.SIGKILL)
    publisher.send_signal(signal.SIGINT)
    published = int(re.search(r"published (\d+) messages", finish(publisher, 130))[1])
    messages = features + published
    wait_until(lambda: len(steps(run_folder)) == messages, "all steps", 120)
    process.send_signal(signal.SIGINT)
    output = finish(process, 130)
    expect("instead of 1; the lag is" in output, output)
    counts = uses(run_folder)
    expect(set(counts.values()) == {1} and len(counts) == messages, "each message is used once")
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"), "--set",
          "training={epochs: 1, batch: 1}", "--set", "optimizer.learning_rate=%g" % rate)
    # After the first use, each one brings a weight nearer to its target y by 2 rate of the rest.
    targets = [1 + random.Random(n).random() for n in range(features)]
    right = [y + (first - y) * (1 - 2 * rate) ** ((published + features - 1 - n) // features)
             for n, (y, first) in enumerate(zip(targets, weights(folder / "file")))]
    # A message more or less changes a weight by more than 0.01; a stale gradient of the same feature by 0.0004.
    least = min(2 * rate * (y - weight) for y, weight in zip(targets, right))
    expect(least > 0.005, "a message changes its weight by only %g" % least)
    expect_alike(right, weights(run_folder), 0.003, "the weights")
    summary = json.loads((run_folder / "summary.json").read_text(encoding="utf-8"))
    expect(summary["latency_ms_99"] >= summary["latency_ms_median"] > 0, summary)


def a_server_that_ends_ends_the_run(broker, folder):
    """At once, also before a worker has connected, and with the checkpoint from which it continues."""
    one_hot(folder, broker, "restarted", 40)
    process = start(TELAR, "train", str(folder / "topic.yaml"), "--output", str(folder / "run"), "--set",
                    "data.end=never", "--set", "training.epoch_steps=1000", "--set",
                    "strategy={name: async_sgd, workers: 1, servers: 2, server_replicas: 1, threads: [1]}")
    wait_until(lambda: (folder / "run" / "checkpoints" / "step-00000010").exists(), "a checkpoint")
    os.kill(workers_of(process, b"serve")[0], signal.SIGKILL)
    output = finish(process, 1)
    expect(re.search(r"server \d was killed by signal 9, so messages that its parameters had seen would be missing; the "
                     "run continues from its checkpoint", output), output)
    process = start(TELAR, "train", str(folder / "topic.yaml"), "--output", str(folder / "early"), "--set",
                    "strategy={name: async_sgd, workers: 1, servers: 1, threads: [1]}")
    wait_until(lambda: (folder / "early" / "servers" / "0" / "address").exists(), "a server")
    os.kill(workers_of(process, b"serve")[0], signal.SIGKILL)
    output = finish(process, 1)
    expect(re.search(r"server 0 was killed by signal 9, so .*; the run has no checkpoint yet", output), output)


class Elsewhere:
    """Two parameter servers and workers that are started by themselves, as on other hosts; `tls`: with certificates.
    Their processes end with it."""

    def __init__(self, folder, topic, tls=False):
        self.folder, self.topic, self.processes = folder, topic, []
        (folder / "token").write_text("a-long-token-of-this-test\n", encoding="utf-8")
        self.security = ["--token-file", str(folder / "token")]
        if tls:
            run(str(CERTS), str(folder / "certs"))
            self.security += ["--certificates", str(folder / "certs")]
        self.servers = [self.serve("127.0.0.1:%d" % brokers.free_port()) for _ in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            if not process.stdout.closed:
                process.communicate()

    def _start(self, *words):
        self.processes.append(start(*words, *self.security))
        return self.processes[-1]

    def serve(self, address, *words):
        process = self._start(TELAR, "serve", "--listen", address, *words)
        brokers.wait_for(int(address.split(":")[1]), "telar serve")
        process.address = address
        return process

    def restart(self, which, *words):
        """Kills a server; another one begins at its address."""
        self.servers[which].kill()
        self.servers[which].communicate()
        self.servers[which] = self.serve(self.servers[which].address, *words)

    def train(self, run, *words, strategy="async_sgd"):
        port = brokers.free_port()
        process = self._start(
            TELAR, "train", str(self.topic), "--output", str(run), "--resume", "--coordinate", "127.0.0.1:%d" % port,
            "--set", "strategy={name: %s, workers: 2, servers: 2, server_replicas: 1, threads: [1], server_addresses: ['%s', '%s']}"
            % (strategy, *(server.address for server in self.servers)), *words)
        process.address = "127.0.0.1:%d" % port
        return process

    def work(self, coordinator):
        return self._start(TELAR, "work", "--join", coordinator.address)


LOST = "so messages that its parameters had seen would be missing; the run continues from its checkpoint step-"
ANOTHER = "does not hold the parameters that the run has written: it was started anew since then, or is another one"
TAKEN = "another coordinator of this run has taken this server over since then"


def servers_elsewhere_lose_nothing(broker, folder):
    """`telar serve` and `telar work --join`: workers are killed, the coordinator, and a server; each message counts once."""
    one_hot(folder, broker, "elsewhere", 600)
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"))
    for strategy in ("async_sgd", "downpour, push_every: 3", "sync_ps"):
        run_folder = folder / strategy.partition(",")[0]
        with Elsewhere(folder, folder / "topic.yaml", tls=strategy == "async_sgd") as hosts:

            def reached(step, run_folder=run_folder):
                return lambda: max(steps(run_folder), default=0) >= step or training.poll() is not None

            training = hosts.train(run_folder, strategy=strategy)
            workers = [hosts.work(training), hosts.work(training)]
            for kill_at in (15, 40, 65):
                wait_until(reached(kill_at), "step %d" % kill_at)
                workers[0].kill()
                workers = [workers[1], hosts.work(training)]
            wait_until(reached(90), "step 90")
            training.kill()  # its workers and servers still run
            training.communicate()
            training = hosts.train(run_folder, strategy=strategy)
            hosts.work(training)
            hosts.work(training)
            wait_until(reached(130), "step 130")
            hosts.restart(0)
            output = finish(training, 1, 30)
            expect(ANOTHER in output and LOST in output, output)
            training = hosts.train(run_folder, strategy=strategy)
            hosts.work(training)
            hosts.work(training)
            output = finish(training)
        expect(set(uses(run_folder).values()) == {2}, "%s: each message is used once in each epoch" % strategy)
        expect_alike(weights(folder / "file"), weights(run_folder), 1e-6, "%s: the weights" % strategy)


def servers_of_before_are_refused(broker, folder):
    """A server that continues from its snapshot, one that is away, a coordinator and a worker of before, another run's servers."""
    one_hot(folder, broker, "before", 600)
    telar("train", str(folder / "file.yaml"), "--output", str(folder / "file"))
    with Elsewhere(folder, folder / "topic.yaml") as hosts:
        run_folder = folder / "run"

        def checkpoint_after(run, step):
            return lambda: any(int(path.name[5:]) > step for path in (run / "checkpoints").glob("step-????????"))

        hosts.restart(1, "--snapshots", str(folder / "snapshots"), "--snapshot-seconds", "0.1")
        training = hosts.train(run_folder)
        hosts.work(training)
        wait_until(checkpoint_after(run_folder, 20), "a checkpoint")
        hosts.restart(1, "--snapshots", str(folder / "snapshots"), "--snapshot-seconds", "0.1")
        output = finish(training, 1, 30)
        expect(ANOTHER in output and LOST in output, output)

        training = hosts.train(run_folder, "--set", "training.epochs=1000")
        worker = hosts.work(training)
        begun = max(steps(run_folder))
        wait_until(checkpoint_after(run_folder, begun), "another checkpoint")
        worker.send_signal(signal.SIGSTOP)  # in the middle of a lease
        training.send_signal(signal.SIGSTOP)
        shutil.copytree(run_folder, folder / "again")
        begun = max(steps(folder / "again"))
        second = hosts.train(folder / "again", "--set", "training.epochs=1000")
        hosts.work(second)
        wait_until(lambda: max(steps(folder / "again")) > begun + 20, "steps of the second coordinator")
        worker.send_signal(signal.SIGCONT)  # what it still pushes would count twice
        training.send_signal(signal.SIGCONT)
        output = finish(training, 1, 30)
        expect(TAKEN in output and LOST in output, output)

        other = finish(hosts.train(folder / "other"), 2, 30)
        expect("this server holds the parameters of another job" in other, other)

        hosts.servers[0].kill()
        time.sleep(0.5)
        second.send_signal(signal.SIGINT)
        output = finish(second, 1, 30)
        expect("its parameters could not be saved; the run continues from its checkpoint step-" in output, output)
        hosts.restart(0)
        epochs = max(steps(folder / "again")) // 150 + 2
        last = hosts.train(folder / "again", "--set", "training.epochs=%d" % epochs)
        hosts.work(last)
        finish(last)
        expect(set(uses(folder / "again").values()) == {epochs}, "each message is used once in each epoch")
        telar("train", str(folder / "file.yaml"), "--output", str(folder / "undisturbed"), "--set",
              "training.epochs=%d" % epochs)
        expect_alike(weights(folder / "undisturbed"), weights(folder / "again"), 1e-6, "the weights")


def a_broker_away_loses_nothing(broker, folder):
    """Connections are cut for two seconds, and then the broker is frozen for one."""
    publisher = start(TELAR, "publish", "synthetic", "--brokers", broker.address, "--topic", "away", "--partitions", "3",
                      "--rate", "150", "--set", "data.samples=450", "--set", "data.shape=[4]")
    wait_for_topic(broker, "away")
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: away, shape: [4], end: {messages: 450}, audit: true}
output: {checkpoint_steps: 1}
""" % broker.address, encoding="utf-8")
    process = start(TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / "run"), "--set",
                    "training.epochs=1", "--set", "training.batch=10")
    wait_until(lambda: len(steps(folder / "run")) > 5, "5 steps")
    broker.relay.down()
    time.sleep(1.5)
    before = len(steps(folder / "run"))
    broker.relay.up()
    wait_until(lambda: len(steps(folder / "run")) > before + 5, "5 more steps")
    broker.freeze()
    time.sleep(1)
    broker.thaw()
    finish(publisher)
    finish(process)
    expect_each_once(folder / "run", 3, 450)


def a_silent_topic_can_be_left(broker, folder):
    """Ctrl-C while a step waits for messages: a checkpoint, and the run goes on when there are more."""
    source = ["--set", "data.samples=50", "--set", "data.shape=[4]"]
    publish(broker, "silent", "synthetic", *source)
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: silent, shape: [4], audit: true}
""" % broker.address, encoding="utf-8")
    train = [TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / "run"), "--resume",
             "--set", "training.batch=20", "--set", "training.epoch_steps=5", "--set", "training.epochs=1"]
    process = start(*train)
    wait_until(lambda: len(steps(folder / "run")) == 2, "2 steps")
    process.send_signal(signal.SIGINT)
    finish(process, 130, 10)
    publish(broker, "silent", "synthetic", *source)
    run(*train)
    expect_each_once(folder / "run", 1, 100)


def damaged_messages_are_kept_elsewhere(broker, folder):
    """A kill comes between; each damaged message is in the other topic, with its place and the reason."""
    lines = ["%g,%g,%s" % (n / 100, n / 200, "x" if n % 7 == 3 else n % 2) for n in range(120)]
    produce(broker, "mixed", 2, lines)
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: mixed, format: csv, shape: [2], classes: 2, audit: true, on_error: skip,
  dead_letter: mixed.failed}
output: {checkpoint_steps: 2}
""" % broker.address, encoding="utf-8")
    train = [TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / "run"), "--resume", "--set",
             "training={batch: 10, epoch_steps: 13, epochs: 1}"]
    process = start(*train)
    wait_until(lambda: len(steps(folder / "run")) == 12, "12 steps")
    process.kill()
    process.communicate()
    produce(broker, "mixed", 2, ["1,1,1"] * 10)
    run(*train)
    bad = {(n % 2, n // 2) for n in range(120) if n % 7 == 3}
    expect(set(uses(folder / "run", "left_out")) == bad, "left out: %s" % uses(folder / "run", "left_out"))
    counts = uses(folder / "run")
    expect(set(counts) == {(n % 2, n // 2) for n in range(130)} - bad, "used: %s" % counts)
    expect(set(counts.values()) == {1}, "used twice")
    summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
    expect(summary["left_out_samples"] == len(bad), "left_out_samples of the last part only: %s" % summary)
    kept = {}
    for value, headers in consume(broker, "mixed.failed"):
        expect(headers["telar.topic"] == "mixed" and "'x' is not a number" in headers["telar.reason"], headers)
        place = int(headers["telar.partition"]), int(headers["telar.offset"])
        kept[place] = value
    expect(kept == {(p, o): lines[2 * o + p] for p, o in bad}, "kept: %s" % kept)
    # A message without a value stays one, and is not an empty one.
    produce(broker, "nothing", 1, [None, "", "1,1,1"])
    run(TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / "nothing"), "--set", "data.topic=nothing",
        "--set", "data.dead_letter=nothing.failed", "--set", "training={batch: 3, epoch_steps: 1, epochs: 1}")
    kept = consume(broker, "nothing.failed")
    expect([value for value, _ in kept] == [None, ""], "kept: %s" % kept)
    expect("no value" in kept[0][1]["telar.reason"] and "no value" not in kept[1][1]["telar.reason"], kept)
    # A batch of one damaged message has no samples.
    for name, strategy in (("single", "single"), ("servers", "{name: async_sgd, workers: 2, servers: 1, threads: [1]}")):
        run(TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / name), "--set", "data.dead_letter=''",
            "--set", "training={batch: 1, epoch_steps: 130, epochs: 1}", "--set", "strategy=" + strategy)
        summary = json.loads((folder / name / "summary.json").read_text(encoding="utf-8"))
        expect(summary["steps"] == 130 and summary["left_out_samples"] == len(bad), summary)


def a_stream_is_scored(broker, folder):
    """By a run that is trained at the same time: newer parameters, a restart after a kill, damaged messages, errors."""
    source = ["--set", "data.samples=3000", "--set", "data.shape=[6]", "--set", "data.classes=3"]
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: learned, shape: [6], classes: 3, mean: [0.1], std: [2]}
output: {checkpoint_steps: 50, keep: 9}
""" % broker.address, encoding="utf-8")
    publish(broker, "learned", "synthetic", "--partitions", "2", *source)
    train = [TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / "run"), "--resume", "--set",
             "training={batch: 20, epochs: 1, epoch_steps: 50}"]
    run(*train)
    output = telar("evaluate", str(folder / "run"), "--data", "rows.csv", code=2)
    expect("rows.csv: the run was trained on messages" in output and "--set data.test_source=csv" in output, output)
    # 300 messages, at once and slowly, each with its key; none has a label.
    rows = [[random.Random(n).random() for _ in range(6)] for n in range(300)]
    raw = [struct.pack("<6f", *row).hex() for row in rows]
    produce(broker, "asked", 3, raw[:100], hexadecimal=True, keys=True)
    predict = [TELAR, "predict", str(folder / "run"), "--from", "asked", "--to", "answers"]
    process = start(*predict)
    wait_until(lambda: committed(broker, "asked", 3, "telar-run-asked") == [34, 33, 33], "offsets of the first 100")
    run(*train, "--set", "training.epochs=2")  # newer parameters, while it waits
    time.sleep(2.5)
    produce(broker, "asked", 3, raw[100:200], hexadecimal=True, keys=True, first=100)
    wait_until(lambda: sum(committed(broker, "asked", 3, "telar-run-asked")) >= 150, "some of the next 100")
    process.kill()
    process.communicate()
    produce(broker, "asked", 3, raw[200:], hexadecimal=True, keys=True, first=200)
    process = start(*predict)
    wait_until(lambda: sum(committed(broker, "asked", 3, "telar-run-asked")) == 300, "all offsets")
    process.send_signal(signal.SIGTERM)
    output = finish(process, 143)
    expect("the last with step 100" in output, output)
    answers = {}
    for partition in range(3):
        for value, _ in consume(broker, "answers", partition):
            answer = json.loads(value)
            expect(answer["partition"] == partition, "another partition: %s" % answer)
            answers.setdefault((partition, answer["offset"]), []).append(answer)
    expect(set(answers) == {(n % 3, n // 3) for n in range(300)}, "%d messages have results" % len(answers))
    inputs = folder / "rows.npy"
    write_npy(inputs, [[(x - 0.1) / 2 for x in row] for row in rows])
    right = {}
    for step in (50, 100):
        table = telar("predict", str(folder / "run" / "checkpoints" / ("step-%08d" % step)), str(inputs), "--all",
                      "--set", "data.normalise=false")
        right[step] = [[float(cell) for cell in line.split(",")[4:]] for line in table.splitlines() if "rows.npy" in line]
    for (partition, offset), found in answers.items():
        n = 3 * offset + partition
        for answer in found:
            expect(answer["key"] == "key-%d" % n, "key: %s" % answer)
            expect(answer["step"] == (50 if n < 100 else 100), "message %d: %s" % (n, answer))
            expect_alike(answer["probabilities"], right[answer["step"]][n], 1e-5, "the probabilities of message %d" % n)
            expect(answer["class"] == max(range(3), key=lambda c, a=answer: a["probabilities"][c]), answer)
    # To standard output, up to now; then nothing is left.
    table = telar("predict", str(folder / "run"), "--from", "asked", "--end", "now", "--group", "other", "--quiet")
    lines = table.splitlines()
    expect(lines[0] == "partition,offset,key,step,class,probability" and len(lines) == 301, table)
    table = telar("predict", str(folder / "run"), "--from", "asked", "--end", "now", "--group", "other", "--quiet")
    expect(len(table.splitlines()) == 1, table)
    table = telar("predict", str(folder / "run"), "--from", "asked", "--messages", "7", "--group", "seven", "--quiet")
    expect(len(table.splitlines()) == 8, table)
    # A damaged message ends it behind those before it, or is kept elsewhere.
    produce(broker, "bad", 1, [raw[0], "00", raw[1]], hexadecimal=True)
    bad = ["predict", str(folder / "run"), "--from", "bad", "--end", "now", "--quiet"]
    output = telar(*bad, code=2)
    expect("topic 'bad', partition 0, offset 1: the message has 1 bytes" in output and "0,0,,100," in output, output)
    output = telar(*bad, "--set", "data.on_error=skip", "--set", "data.dead_letter=bad.failed")
    expect("0,2,,100," in output and "0,0," not in output, output)
    expect([headers["telar.offset"] for _, headers in consume(broker, "bad.failed")] == ["1"], "the dead letters")
    telar("train", str(folder / "job.yaml"), "--output", str(folder / "file"), "--set",
          "data={source: synthetic, samples: 100, shape: [6], classes: 3, normalise: false}", "--set",
          "training={batch: 20, epochs: 1}")
    output = telar("predict", str(folder / "file"), "--from", "asked", "--end", "now", "--set",
                   "data.brokers=" + broker.address)
    expect(output.count("\n") >= 300, output)
    # The broker is away, also at the end.
    predict[-1] = "more"
    process = start(*predict, "--group", "cut")
    wait_until(lambda: sum(committed(broker, "asked", 3, "cut")) == 300, "all offsets")
    broker.relay.down()
    time.sleep(1)
    broker.relay.up()
    produce(broker, "asked", 3, raw[:30], hexadecimal=True)
    wait_until(lambda: sum(committed(broker, "asked", 3, "cut")) == 330, "the offsets after the cut")
    broker.relay.down()
    process.send_signal(signal.SIGINT)
    finish(process, 130, 10)
    broker.relay.up()
    wrong = [
        (["run", "--from", "asked", "--to", "asked"], "--to is 'asked', the topic of --from"),
        (["run", "--from", "aske"], "there is no topic 'aske'"),
        (["file", "--from", "asked"], "was not trained from a topic"),
        (["run", "--from", "asked", "--set", "data.shape=[5]"], "the samples are f32 [5], but the model"),
        (["run"], "there are no samples; give either files"),
        (["run", "x.png", "--from", "asked"], "there are files and --from"),
        (["run", "--from", "asked", "--best"], "--best is for files"),
    ]
    for words, sentence in wrong:
        output = telar("predict", str(folder / words[0]), *words[1:], code=2)
        expect(sentence in output, "'%s' is not in: %s" % (sentence, output))


def a_topic_created_again_is_refused(broker, folder):
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: again, format: csv, shape: [2], classes: 2}
""" % broker.address, encoding="utf-8")
    train = [TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / "run"), "--resume", "--set",
             "training={batch: 10, epoch_steps: 2}"]
    lines = ["%g,%g,1" % (n / 100, n / 200) for n in range(60)]
    produce(broker, "again", 2, lines)
    run(*train, "--set", "training.epochs=1")
    run(*train, "--set", "training.epochs=2")
    delete(broker, "again")
    produce(broker, "again", 2, lines)
    output = run(*train, "--set", "training.epochs=3", code=2)
    expect("topic 'again', partition 0: offset 19 is another message" in output, output)
    # Other messages of the same times and sizes, also after the last message of a pass.
    servers = ["--set", "strategy={name: async_sgd, workers: 2, servers: 1, threads: [1]}"]
    for name, end, more in (("single", "never", []), ("pass", "now", []), ("servers", "never", servers),
                            ("servers-pass", "now", servers)):
        topic = "again-" + name
        train[4:] = [str(folder / name), "--resume", "--set", "data.topic=" + topic, "--set", "data.end=" + end, "--set",
                     "training={batch: 10, epoch_steps: %d}" % (2 if end == "never" else 0), *more]
        for label in (0, 1):
            produce(broker, topic, 2, ["%.2f,%.2f,%d" % (n / 100, n / 200, label) for n in range(60)], timed=True)
            output = run(*train, "--set", "training.epochs=%d" % (label + 1), code=2 * label)
            delete(broker, topic)
        expect("topic '%s', partition 0: offset %d is another message" % (topic, 9 if end == "never" else 29) in output, output)


def partitions_that_were_added_are_used(broker, folder):
    """Tansu adds none, so the topic is made again: the same messages, with the same times, and a third partition."""
    lines = ["%g,%g,1" % (n / 100, n / 200) for n in range(40)]
    for name, more in (("single", []), ("servers", ["--set", "strategy={name: async_sgd, workers: 2, servers: 1, threads: [1]}"])):
        topic = "grown-" + name
        (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: %s, format: csv, shape: [2], classes: 2, audit: true}
""" % (broker.address, topic), encoding="utf-8")
        train = [TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / name), "--resume", "--set",
                 "training={batch: 10, epoch_steps: 2}", *more]
        produce(broker, topic, 2, lines, timed=True)
        run(*train, "--set", "training.epochs=1")
        delete(broker, topic)
        produce(broker, topic, 2, lines, more=1, timed=True)
        produce_to(broker, topic, 2, lines[:10])
        run(*train, "--set", "training.epochs=2")
        used = uses(folder / name)
        expect(set(used.values()) == {1} and len(used) == 40, "each message is used once: %s" % used)
        expect(sum(partition == 2 for partition, _ in used) == 6, "a third of the new ones is of the new partition: %s" % used)


def drifts_are_found(broker, folder):
    """The labels change; the means and the drifts go on after a kill, under every kind of strategy."""
    lines = ["--set", "data.samples=4000", "--set", "data.shape=[6]", "--set", "data.classes=3"]
    publish(broker, "steady", "synthetic", "--partitions", "2", *lines)
    publish(broker, "drifting", "synthetic", "--partitions", "2", "--drift", "labels@2400", *lines)
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", shape: [6], classes: 3, end: now}
output: {checkpoint_messages: 640}
""" % broker.address, encoding="utf-8")
    train = [TELAR, "train", str(folder / "job.yaml"), "--resume", "--set", "training.epochs=1", "--set",
             "training.drift.detector=adwin", "--set", "training.prequential.window=960"]

    def events(run_folder, kind):
        lines = (run_folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def summary(run_folder):
        return json.loads((run_folder / "summary.json").read_text(encoding="utf-8"))

    raise_rate = ["--set", "training.drift.action=raise_rate", "--set", "training.drift.factor=2"]
    mirrored = ["--set", "strategy={name: mirrored, replicas: 2}", *raise_rate]
    servers = ["--set", "strategy={name: async_sgd, workers: 2, servers: 1, threads: [1]}"]
    for name, topic, more in (("steady", "steady", raise_rate), ("single", "drifting", raise_rate),
                              ("mirrored", "drifting", mirrored), ("servers", "drifting", servers)):
        output = run(*train, "--output", str(folder / name), "--set", "data.topic=" + topic, *more)
        steps_of_drifts = [event["step"] for event in events(folder / name, "drift")]
        expect([drift["step"] for drift in summary(folder / name)["drifts"]] == steps_of_drifts, "the summary")
        if topic == "steady":
            expect(not steps_of_drifts, "drifts where there is none: %s" % steps_of_drifts)
            continue
        least = 60 if name == "servers" else 75  # a worker may be its leased batches ahead of the others
        expect(steps_of_drifts and least < steps_of_drifts[0] <= 95, "%s: drifts: %s" % (name, steps_of_drifts))
        expect("drift after step %d: " % steps_of_drifts[0] in output, output)
        rates = {event["step"]: event["learning_rate"] for event in events(folder / name, "step")}
        raised = rates[steps_of_drifts[0] + 5] / rates[steps_of_drifts[0] + 4]
        expect(abs(raised - (1 if name == "servers" else 2)) < 1e-9, "%s: raised by %g" % (name, raised))

    process = start(*train, "--output", str(folder / "killed"), "--set", "data.topic=drifting", *raise_rate)
    wait_until(lambda: max(steps(folder / "killed"), default=0) >= 90 or process.poll() is not None, "90 steps")
    process.kill()
    process.communicate()
    run(*train, "--output", str(folder / "killed"), "--set", "data.topic=drifting", *raise_rate)
    for kind in ("step", "drift"):
        values = [[{name: value for name, value in event.items() if name.startswith(("window", "fading", "step", "value"))}
                   for event in events(folder / one, kind)] for one in ("single", "killed")]
        expect(values[0] == values[1], "the killed run has other means or drifts")
    expect(weights(folder / "single") == weights(folder / "killed"), "the killed run has other weights")


def prometheus_reads_the_run(broker, folder):
    """One GET while the training waits for more messages; a port that is taken."""
    publish(broker, "watched", "synthetic", "--set", "data.samples=100", "--set", "data.shape=[4]")
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: watched, shape: [4]}
""" % broker.address, encoding="utf-8")
    address = "127.0.0.1:%d" % brokers.free_port()
    train = [TELAR, "train", str(folder / "job.yaml"), "--metrics", address, "--set",
             "training={batch: 20, epoch_steps: 9, epochs: 1}"]
    process = start(*train, "--output", str(folder / "run"))
    wait_until(lambda: len(steps(folder / "run")) == 5, "5 steps")
    other = run(*train, "--output", str(folder / "other"), code=2)
    expect("Listening on %s is not possible: Address already in use" % address in other, other)
    expect(not (folder / "other").exists(), "a run that did not begin leaves its folder")
    other = run(*train, "--output", str(folder / "other"), "--set",
                "strategy={name: async_sgd, workers: 1, servers: 1, threads: [1]}", code=2)
    expect("is not possible: Address already in use" in other, other)
    expect(not (folder / "other").exists(), "servers were started before the address was tried")

    def page():
        with urllib.request.urlopen("http://%s/metrics" % address, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}

    wait_until(lambda: page().get("telar_steps_total") == 5, "5 steps in the metrics")
    found = page()
    expect(found["telar_samples_total"] == 100 and found["telar_workers"] == 1 and "telar_window_loss" in found,
           "metrics: %s" % found)
    process.send_signal(signal.SIGINT)
    output = finish(process, 130, 10)
    expect("metrics: http://%s/metrics" % address in output, output)
    expect(any((folder / "run" / "by_messages").iterdir()), "TensorBoard by messages")


def errors_are_sentences(broker, folder):
    publish(broker, "small", "synthetic", "--set", "data.samples=40", "--set", "data.shape=[4]", "--partitions", "2")
    (folder / "job.yaml").write_text(COMMON + """
data: {source: kafka, brokers: "%s", topic: small, shape: [4], end: now}
""" % broker.address, encoding="utf-8")
    wrong = [
        (["data.brokers=127.0.0.1:%d" % brokers.free_port()], 1, ["no broker at 127.0.0.1:"]),
        (["data.topic=smal"], 2, ["there is no topic 'smal'", "did you mean 'small'?"]),
        (["data.shape=[5]"], 2, ["topic 'small', partition 0, offset 0: the message has 17 bytes", "need 21"]),
        (["data.format=json"], 2, ["topic 'small', partition 0, offset 0: the message is not valid JSON"]),
        (["data.start={offsets: [70, 0]}", "data.end={messages: 5}"], 2, ["partition 0: there is no offset 70"]),
        (["data.start={offsets: [0]}"], 2, ["data.start has 1 offsets; topic 'small' has 2 partitions"]),
        (["data.start={timestamp: 2100-01-01T00:00Z}"], 2, ["partition 0", "do not know the offsets of times"]),
        (["data.end=never"], 2, ["data.end is never, so training.epoch_steps must say"]),
        (["strategy={name: downpour, push_every: 1001}"], 2, ["at most 1000 batches are pushed at once", "it is 1001"]),
        (["data.kafka={sasl.password: hunter2}"], 2, ["sasl.password is a secret"]),
        (["data.test_source=csv"], 2, ["data.test_source is csv", "name it as data.test_path"]),
        (["data.test_path=x.csv"], 2, ["data.test_path needs data.test_source"]),
    ]
    output = telar("publish", "synthetic", "--brokers", broker.address, "--topic", "small", "--partitions", "3", code=2)
    expect("topic 'small' exists with 2 partitions, not 3" in output, output)
    begun = [start(TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / str(i)),
                   *[word for setting in settings for word in ("--set", setting)])
             for i, (settings, _, _) in enumerate(wrong)]
    for process, (_, code, parts) in zip(begun, wrong):
        output = finish(process, code)
        for part in parts:
            expect(part in output, "'%s' is not in: %s" % (part, output))
        expect("hunter2" not in output, "a secret is printed")


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, "%s did not come within %d s" % (what, seconds))
        time.sleep(0.01)


def client(code, *words):
    """Runs Python with the client confluent_kafka, which scripts/setup stream installs."""
    return json.loads(run(str(brokers.folder() / "bin" / "python"), "-c", code, *words))


def wait_for_topic(broker, topic):
    code = """
import json, sys, time
from confluent_kafka.admin import AdminClient
while sys.argv[2] not in AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=10).topics:
    time.sleep(0.02)
print("true")"""
    client(code, broker.address, topic)


def delete(broker, topic):
    client("""
import sys
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
for done in admin.delete_topics([sys.argv[2]]).values():
    done.result(10)
print("true")""", broker.address, topic)


def produce(broker, topic, partitions, messages, hexadecimal=False, keys=False, first=0, more=0, timed=False):
    """Message n, from `first` on, goes to partition n mod partitions; the topic is created with `more` besides. `hexadecimal`:
    what is given are the digits of its bytes. `keys`: its key is "key-n". `timed`: its time is n ms after some moment."""
    code = """
import json, sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
address, topic, partitions, messages = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
admin = AdminClient({"bootstrap.servers": address})
if topic not in admin.list_topics(timeout=10).topics:
    for done in admin.create_topics([NewTopic(topic, partitions + int(sys.argv[8]), 1)]).values():
        done.result(10)
producer = Producer({"bootstrap.servers": address})
for n, message in enumerate(messages, int(sys.argv[7])):
    time = {"timestamp": 1_700_000_000_000 + n} if sys.argv[9] == "True" else {}
    producer.produce(topic, bytes.fromhex(message) if sys.argv[5] == "True" else message, partition=n % partitions,
                     key="key-%d" % n if sys.argv[6] == "True" else None, **time)
print(json.dumps(producer.flush(10)))"""
    words = [broker.address, topic, str(partitions), json.dumps(messages), str(hexadecimal), str(keys), str(first),
             str(more), str(timed)]
    expect(client(code, *words) == 0, "messages are lost")


def produce_to(broker, topic, partition, messages):
    code = """
import json, sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1]})
for message in json.loads(sys.argv[4]):
    producer.produce(sys.argv[2], message, partition=int(sys.argv[3]))
print(json.dumps(producer.flush(10)))"""
    expect(client(code, broker.address, topic, str(partition), json.dumps(messages)) == 0, "messages are lost")


def consume(broker, topic, partition=0):
    """Value and headers of each message that a partition of a topic has now."""
    code = """
import json, sys
from confluent_kafka import Consumer, KafkaError, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "reader", "enable.partition.eof": True})
consumer.assign([TopicPartition(sys.argv[2], int(sys.argv[3]), 0)])
found = []
while True:
    message = consumer.poll(10)
    if message is None or message.error():
        break
    headers = {name: value.decode() for name, value in message.headers() or []}
    found.append((message.value() if message.value() is None else message.value().decode(), headers))
print(json.dumps(found))"""
    return client(code, broker.address, topic, str(partition))


def committed(broker, topic, partitions, group=None):
    """The committed offsets of a group; without one, of that which is named as the topic."""
    code = """
import json, sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[4]})
asked = [TopicPartition(sys.argv[2], p) for p in range(int(sys.argv[3]))]
print(json.dumps([found.offset for found in consumer.committed(asked, timeout=10)]))"""
    return client(code, broker.address, topic, str(partitions), group or topic)


def main():
    if brokers.folder() is None:
        print("check_stream: the broker is missing, so nothing was checked; scripts/setup stream installs it")
        sys.exit(77)
    parts = {
        "short": [errors_are_sentences, losses_are_those_of_the_file, killed_workers_count_every_message_once],
        "second": [formats_are_read, records_are_read, drifts_are_found, prometheus_reads_the_run,
                   killed_runs_use_every_message_once, stopped_workers_count_every_message_once, endless_topics_have_the_losses_of_the_file,
                   workers_follow_the_load, a_server_that_ends_ends_the_run],
        "third": [servers_elsewhere_lose_nothing, servers_of_before_are_refused, a_broker_away_loses_nothing,
                  a_killed_broker_loses_nothing, a_silent_topic_can_be_left, damaged_messages_are_kept_elsewhere,
                  a_stream_is_scored, a_topic_created_again_is_refused, partitions_that_were_added_are_used],
        "storm": [storm]}
    wanted = sys.argv[2:] or ["short", "second", "third"]
    checks = [check for name, part in parts.items() for check in part if name in wanted or check.__name__ in wanted]
    if not checks:
        sys.exit("check_stream: there is no check or part %s; the parts are %s" % (" ".join(wanted), ", ".join(parts)))
    with brokers.Broker() as broker:
        for check in checks:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="telar-stream-") as folder:
                try:
                    check(broker, pathlib.Path(folder))
                except AssertionError as error:
                    sys.exit("check_stream: %s: %s" % (check.__name__, error))
            print("%-45s %5.1f s" % (check.__name__, time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main()
