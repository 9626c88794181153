"""Run folders: telar evaluates, resumes, reports and shows a run of which one file is damaged.

Exit code 0 is right only if the damage does not matter: a file that the command does not use, an older checkpoint
with a warning, a field of a log that a report does not show. A damaged checkpoint that is used without a word is a
silent success. Half of the damaged files of a checkpoint get the right length and checksum, as an attacker would
give them; then only crashes and hangs count."""
import json
import os
import pathlib
import zlib

from support.mutations import mutate_bytes, mutate_json, mutate_text
from support.process import run

JOB = """model: {name: mlp, options: {hidden: [3]}}
data: {source: synthetic, samples: 24, test_samples: 6, shape: [1, 2, 2], classes: 2, threads: 0}
training: {epochs: 2, batch: 8}
strategy: {threads: 1}
output: {tensorboard: false, checkpoint_steps: 1, keep: 3}
"""
# A resumed run trains one epoch more.
LONGER = ["--set", "training.epochs=3"]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")

UNDAMAGED = {}  # the outcome of each command without damage


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def commands(telar, folder):
    """The commands in the order in which they run; the last ones change the folder."""
    return {
        "evaluate": [telar, "evaluate", folder, "--summary", folder.parent / "evaluate.json"],
        "report": [telar, "report", folder, "-o", folder.parent / "report.html"],
        "show": [telar, "show", folder / "job.yaml"],
        "train": [telar, "train", folder, "--resume"] + LONGER,
    }


def start(command):
    return run(command, seconds=20, memory_mb=4096, environment=ENVIRONMENT)


def prepare(telar, folder):
    (folder / "job.yaml").write_text(JOB)
    trained = run([telar, "train", folder / "job.yaml", "--output", folder / "run", "--quiet"],
                  environment=ENVIRONMENT)
    if trained.code != 0:
        raise RuntimeError(trained.err)
    files = files_of(folder / "run")
    for name, command in commands(telar, folder / "run").items():
        outcome = start(command)
        if outcome.code != 0:
            raise RuntimeError("%s: %s" % (name, outcome.err))
        UNDAMAGED[name] = result(name, outcome, folder / "run")
    return [files]


def result(name, outcome, folder):
    """What a command has computed, without times and paths."""
    if name == "evaluate":
        figures = json.loads((folder.parent / "evaluate.json").read_text())
        return {key: figures[key] for key in figures if key.startswith("test_") or key == "samples"}
    if name == "train":
        newest = sorted((folder / "checkpoints").iterdir())[-1]
        return newest.name, zlib.crc32((newest / "model.safetensors").read_bytes())
    return outcome.out if name == "show" else None


def sign(files, checkpoint):
    """Gives a checkpoint's state the lengths and checksums of its files, and its own checksum."""
    name = checkpoint + "/state.json"
    try:
        state = json.loads(files[name])
        for entry in state["files"]:
            data = files[checkpoint + "/" + entry]
            state["files"][entry] = {"bytes": len(data), "crc32": zlib.crc32(data)}
        state.pop("crc32", None)
        files[name] = json.dumps(state).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # damaged too much to be signed


def mutate(random, original):
    files = dict(original)
    name = random.choice(sorted(name for name in files if not name.startswith("events.")))
    checkpoints = sorted({name.rsplit("/", 1)[0] for name in files if name.startswith("checkpoints/")})
    if random.random() < 0.6:  # the newest checkpoint is the one that is used
        name = random.choice(sorted(name for name in files if name.startswith(checkpoints[-1])))
    kinds = [mutate_bytes, mutate_text] + ([mutate_json] * 4 if name.endswith(".json") else [])
    if name.endswith((".yaml", ".jsonl")):
        kinds += [mutate_text] * 2
    files[name] = random.choice(kinds)(random, files[name])
    signed = name.startswith("checkpoints/") and random.random() < 0.5
    if signed:
        sign(files, name.rsplit("/", 1)[0])
    files = {"run/" + key: data for key, data in files.items()}
    files["DAMAGED"] = json.dumps({"file": name, "signed": signed}).encode()
    return files


def readers(damaged):
    """The commands that read a file; the others would only take time."""
    if damaged.startswith("checkpoints/"):
        return ("evaluate", "train")
    return ("report", "show", "train") if damaged == "job.yaml" else ("report", "train")


def matters(name, damaged, signed):
    """Whether a command must not succeed silently with this damage."""
    if signed:
        return False
    if damaged.startswith("checkpoints/"):
        return name in ("evaluate", "train")
    return False


def check(telar, input):
    damage = json.loads((input / "DAMAGED").read_text())
    folder = input / "run"
    for name, command in commands(telar, folder).items():
        if name not in readers(damage["file"]):
            continue
        outcome = start(command)
        failure = outcome.failure(codes=(0, 1, 2))
        if failure:
            return "%s: %s" % (damage["file"], failure)
        if outcome.code != 0 and not outcome.err.strip():
            return "%s: %s fails without a message" % (damage["file"], name)
        if outcome.code != 0 or not matters(name, damage["file"], damage["signed"]) or "warning: " in outcome.err:
            continue
        if result(name, outcome, pathlib.Path(folder)) != UNDAMAGED[name]:
            return "%s: %s succeeds with another result and without a warning" % (damage["file"], name)
    return None
