"""Snapshots of a parameter server: a server is started on a folder whose newest snapshot is damaged, without
and with the one before, which may be damaged, too.

It must refuse to start where no snapshot is whole, and otherwise continue from the whole one and name the
damaged one. A damaged snapshot that is accepted is a silent success."""
import os
import subprocess

from support.mutations import mutate_bytes
from support.process import run

JOB = """model: {name: mlp, options: {hidden: [3]}}
data: {source: synthetic, samples: 24, test_samples: 6, shape: [1, 2, 2], classes: 2, threads: 0}
training: {epochs: 2, batch: 8}
optimizer: {name: adam}
strategy: {name: async_sgd, workers: 1, servers: 1, threads: 1}
output: {tensorboard: false}
"""
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
NEWEST, PREVIOUS = "store.snapshot", "store.snapshot.previous"

WHOLE = {}  # the undamaged bytes of each file


def prepare(telar, folder):
    (folder / "job.yaml").write_text(JOB)
    trained = run([telar, "train", folder / "job.yaml", "--output", folder / "run", "--quiet"], environment=ENVIRONMENT)
    if trained.code != 0:
        raise RuntimeError(trained.err)
    servers = folder / "run" / "servers" / "0"
    WHOLE.update({name: (servers / name).read_bytes() for name in (NEWEST, PREVIOUS)})
    return [{NEWEST: WHOLE[NEWEST]}, dict(WHOLE)]


def mutate(random, original):
    files = dict(original)
    damaged = [NEWEST] if len(files) == 1 else random.choice([[NEWEST], [PREVIOUS], [NEWEST, PREVIOUS]])
    for name in damaged:
        while files[name] == original[name]:
            files[name] = mutate_bytes(random, files[name])
    return files


def gone():
    """The number of a process that has ended; a server that follows it ends as soon as it has started."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


def check(telar, folder):
    whole = {path.name: path.read_bytes() == WHOLE[path.name] for path in folder.iterdir()}
    outcome = run([telar, "serve", "--listen", "127.0.0.1:0", "--snapshots", folder, "--follow", gone()],
                  memory_mb=2048, environment=ENVIRONMENT)
    failure = outcome.failure((0, 2))
    if failure:
        return failure
    said = outcome.out + outcome.err
    if outcome.code == 2 and "but this release of telar reads" in said:
        return None  # the damaged byte is the number of the format: another release's file looks the same
    if not any(whole.values()):
        if outcome.code == 0:
            return "a damaged snapshot was accepted: %s" % said
        return None if "is not a complete snapshot" in said else "no reason was given: %s" % said
    if outcome.code != 0:
        return "a whole snapshot was refused: %s" % said
    used = NEWEST if whole[NEWEST] else PREVIOUS
    if "Continues from the snapshot %s\n" % (folder / used) not in said:
        return "%s was not used: %s" % (used, said)
    if not whole[NEWEST] and "The newest snapshot is damaged" not in said:
        return "the damaged snapshot was not named: %s" % said
    return None
