#!/usr/bin/env python3
"""Trains from a topic of a real broker (Tansu) and compares with training from files.

    check_stream.py TELAR [CHECK...]

Without the broker (`scripts/setup stream` installs it) the exit code is 77.
"""
import json
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

import broker as brokers

TELAR = sys.argv[1]
MPI = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def start(*words, **more):
    return subprocess.Popen([*words], env=dict(brokers.environment(), **MPI), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **more)


def finish(process, code=0, seconds=30):
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


def uses(folder):
    """How often the steps of a run have used each (partition, offset)."""
    counts = {}
    for line in (pathlib.Path(folder) / "offsets.jsonl").read_text(encoding="utf-8").splitlines():
        for used in json.loads(line)["used"].split():
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
    """single, mirrored over threads and over processes; uneven partitions; images of bytes, normalised."""
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
    for name, file, strategy, before in (("single", "single", [], []), ("mirrored", "mirrored", mirrored, []),
                                         ("processes", "mirrored", ["--set", "strategy=mirrored"], processes)):
        file, topic = folder / ("file-" + file), folder / ("topic-" + name)
        if not file.exists():
            telar("train", str(folder / "file.yaml"), "--output", str(file), "--set", "strategy.threads=1", *strategy)
        run(*before, TELAR, "train", str(folder / "topic.yaml"), "--output", str(topic), "--set", "strategy.threads=1",
            *strategy)
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
        (["data.end=never"], 2, ["data.end is never, so training.epoch_steps must say"]),
        (["strategy.name=downpour"], 2, ["strategy downpour cannot train on a stream yet; choose single or mirrored"]),
        (["data.kafka={sasl.password: hunter2}"], 2, ["sasl.password is a secret"]),
    ]
    begun = [start(TELAR, "train", str(folder / "job.yaml"), "--output", str(folder / str(i)),
                   *[word for setting in settings for word in ("--set", setting)])
             for i, (settings, _, _) in enumerate(wrong)]
    for process, (_, code, parts) in zip(begun, wrong):
        output = finish(process, code)
        for part in parts:
            expect(part in output, "'%s' is not in: %s" % (part, output))
        expect("hunter2" not in output, "a secret is printed")


def wait_until(condition, what, seconds=20):
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


def committed(broker, topic, partitions):
    """The committed offsets of the group that is named as the topic."""
    code = """
import json, sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2]})
asked = [TopicPartition(sys.argv[2], p) for p in range(int(sys.argv[3]))]
print(json.dumps([found.offset for found in consumer.committed(asked, timeout=10)]))"""
    return client(code, broker.address, topic, str(partitions))


def main():
    if brokers.folder() is None:
        print("check_stream: the broker is missing, so nothing was checked; scripts/setup stream installs it")
        sys.exit(77)
    checks = [errors_are_sentences, losses_are_those_of_the_file, formats_are_read,
              killed_runs_use_every_message_once, a_broker_away_loses_nothing, a_silent_topic_can_be_left]
    wanted = sys.argv[2:]
    with brokers.Broker() as broker:
        for check in checks:
            if wanted and check.__name__ not in wanted:
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="telar-stream-") as folder:
                try:
                    check(broker, pathlib.Path(folder))
                except AssertionError as error:
                    sys.exit("check_stream: %s: %s" % (check.__name__, error))
            print("%-45s %5.1f s" % (check.__name__, time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main()
