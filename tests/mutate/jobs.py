"""Damaged jobs: `telar train --check` refuses them with a sentence, or they can be trained."""
import pathlib
import re

from support.mutations import NUMBERS, mutate_bytes, mutate_text
from support.process import run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# What a job may become for a training of two steps. The check applies to the job as it is, too.
SHORT = ["--set", "training.epochs=1", "--set", "data.limit=9", "--set", "data.validation=0.2",
         "--set", "output.folder=run"]
MOST_BYTES = 1 << 30  # a larger job is only checked
TREE = "data: {source: synthetic, shape: [1, 28, 28], samples: 40, test_samples: 4}\n"

# Every section, with keys that the examples do not use.
JOBS = {
    "single": "model: {name: mlp, options: {hidden: [8, 4], activation: tanh, dropout: 0.5}}\n" + TREE +
              "optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.01}\n"
              "schedule: {name: step, milestones: [1, 2], every_epochs: 0.5, gamma: 0.5, warmup_epochs: 0.1}\n"
              "training: {batch: 4, evaluation_batch: 3, seed: 3, clip_norm: 1, label_smoothing: 0.1, top_k: [1, 2],\n"
              "  early_stopping: {metric: accuracy, patience: 2}}\n"
              "output: {checkpoint_epochs: 1, checkpoint_steps: 1, keep: 1, tensorboard: false, log_steps: 1}\n",
    "mirrored": "name: two\nmodel: lenet5\n" + TREE + "training: {batch: 5, precision: bf16}\n"
                "strategy: {name: mirrored, replicas: 2, threads: [1, 1], shares: [1, 2], bucket_mb: 0.1,\n"
                "  batch_norm: synchronised, devices: [cpu]}\n",
    "pipeline": "model: convnet\n" + TREE + "training: {batch: 6, convolution: winograd}\n"
                "strategy: {name: pipeline, stages: 2, micro_batches: 3, threads: 1}\n",
    "layers": "model:\n  layers:\n"
              "    - {type: conv2d, name: a, channels: 4, kernel: [3, 3], stride: 2, padding: 1, dilation: 1, groups: 1}\n"
              "    - {type: batch_norm, epsilon: 0.001, momentum: 0.2}\n"
              "    - {type: average_pool, kernel: 2, stride: 1, padding: 1}\n"
              "    - {type: conv2d, name: b, from: a, channels: 4, kernel: 1, bias: false}\n"
              "    - {type: concat, inputs: [a, b], axis: 1}\n"
              "    - {type: basic_block, channels: 8, stride: 2}\n"
              "    - {type: bottleneck_block, channels: 4, stride: 1}\n"
              "    - {type: reshape, shape: [16, -1]}\n"
              "    - {type: transpose, axes: [0, 2, 1]}\n"
              "    - {type: gru, hidden: 5, layers: 2, dropout: 0.1, output: sequence}\n"
              "    - {type: layer_norm}\n    - {type: mean, axes: [1]}\n    - {type: softmax, axis: 1}\n"
              "    - {type: linear, features: 10, bias: true}\n" + TREE,
    "tokens": "model:\n  layers:\n    - {type: embedding, vocabulary: 30, width: 6}\n"
              "    - {type: lstm, hidden: 4, layers: 1, output: last}\n    - {type: linear, features: 3}\n"
              "data: {source: synthetic, shape: 7, vocabulary: 30, classes: 3, samples: 20, test_samples: 5}\n"
              "optimizer: {name: rmsprop, alpha: 0.9, epsilon: 0.001}\n",
    "servers": "model: mlp\n" + TREE + "strategy: {name: downpour, workers: 2, servers: 2, push_every: 2,\n"
               "  fetch_every: 3, staleness: 4, placement: partitioned, place: ['fc*=1'], snapshot_seconds: 5}\n",
    "table": "model: mlp\ndata: {source: csv, path: table.csv, label: c, header: true, separator: comma, classes: 2,\n"
             "  limit: 12, validation: 0.25, test: 0.25, normalise: true, mean: [1, 2], std: [3, 4], shuffle: false,\n"
             "  threads: 1, prefetch: 2}\noptimizer: {name: adagrad, lr_decay: 0.1}\n",
}
TABLE = "a,b,c\n" + "".join("%d,%d,%d\n" % (i, i * i, i % 2) for i in range(12))

VALUES = NUMBERS + ['""', "null", "~", "[]", "{}", "[0]", "[1, [2]]", "{a: 1}", "true", "'3'", "&a [*a]", "!!binary x",
                    "|", "x: y", "../../x", "/dev/zero", '"\\0"', "ñ", "-0", "1e-400", "0x10", "1_000", "y" * 300,
                    "[1073741823, 1073741823]", "[1048576, 1048576, 1048576, 1048576]", "2147483647", "1048576"]
SCALAR = re.compile(r"(?<=: )[^\s,{}\[\]][^,{}\[\]\n]*|(?<=[\[,] )[\w.-]+(?=[,\]])|(?<=\[)[\w.-]+(?=[,\]])|\[[^\[\]\n]*\]")
WORD = re.compile(r"[A-Za-z_0-9.]+")


def prepare(telar, folder):
    jobs = {"%s.yaml" % name: text for name, text in JOBS.items()}
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        text = re.sub(r"^data: fashion-mnist$", TREE.strip(), path.read_text(), flags=re.M)
        jobs[path.name] = text.replace("source: cifar10\n  path: cifar-10-batches-bin",
                                       "source: synthetic\n  shape: [3, 8, 8]\n  samples: 20")
    return [{"job.yaml": jobs[name].encode(), "table.csv": TABLE.encode()} for name in sorted(jobs)]


def replaced(random, text, pattern, values):
    found = list(pattern.finditer(text))
    if not found:
        return text
    place = random.choice(found)
    return text[:place.start()] + random.choice(values) + text[place.end():]


def bomb(random, text):
    levels = random.choice([3, 9, 30])
    lines = ["a0: &a0 [x, x]"] + ["a%d: &a%d [%s]" % (i, i, ", ".join(["*a%d" % (i - 1)] * 9)) for i in range(1, levels)]
    return text + "\n".join(lines) + "\n"


def mutate_job(random, text):
    kind = random.randrange(12)
    if kind <= 5:
        return replaced(random, text, SCALAR, VALUES)
    if kind == 6:
        return replaced(random, text, WORD, [word.group() for word in WORD.finditer(text)])
    if kind == 7:
        return replaced(random, text, re.compile(r"\n +| {2,}"), ["\n\t", "\t", "\n", " "])
    if kind == 8:
        return bomb(random, text)
    if kind == 9:
        return replaced(random, text, re.compile(r"[:,{}\[\]'\"&*!|>%@#-]"), list(":,{}[]'\"&*!|>%@#-"))
    return mutate_text(random, text.encode()).decode(errors="surrogateescape")


def mutate(random, original):
    if random.randrange(8) == 0:
        return {**original, "job.yaml": mutate_bytes(random, original["job.yaml"])}
    text = original["job.yaml"].decode()
    for _ in range(random.choice([1, 1, 2, 3])):
        text = mutate_job(random, text)
    return {**original, "job.yaml": text.encode(errors="surrogateescape")}


def wrong(outcome):
    """What is wrong with how telar ended; None if it worked or refused the job with a sentence."""
    failure = outcome.failure(codes=(0, 1, 2))
    if failure:
        return failure
    for word in ("bad_alloc", "terminate called", "length_error", "std::", "out_of_range"):
        if word in outcome.err:
            return "telar ended with an uncaught error: " + outcome.err.strip()
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    if outcome.code != 0 and len(errors) != 1:
        return "telar ended with %d messages instead of one: %s" % (len(errors), outcome.err.strip())
    return None


def bytes_needed(text):
    """The memory that --check reports."""
    size = re.search(r"^memory: ([\d.]+) (\w+)", text, re.M)
    units = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}
    return float(size[1]) * units[size[2]] if size else 0


def check(telar, folder):
    plain = run([telar, "train", "job.yaml", "--check"], folder=folder)
    if wrong(plain) or plain.code != 0:
        return wrong(plain)
    checked = run([telar, "train", "job.yaml", "--check", *SHORT], folder=folder)
    if wrong(checked) or checked.code != 0 or bytes_needed(checked.out) > MOST_BYTES:
        return wrong(checked)
    if "this machine cannot train the job" in checked.err or "is not on this machine" in checked.out:
        return None
    job = (folder / "job.yaml").read_text(errors="replace")
    if re.search(r"async_sgd|downpour|sync_ps|parameter_averaging|cuda", job):
        return None  # several processes, or devices that are not here
    if re.search(r"test_samples: *\d{6}", job):
        return None  # data.limit does not limit them, and a network may need minutes for so many
    trained = run([telar, "train", "job.yaml", *SHORT], folder=folder, seconds=60)
    if wrong(trained):
        return wrong(trained)
    if trained.code == 2:
        return "--check says that the job is valid, but it cannot be trained: " + trained.err.strip()
    return None
