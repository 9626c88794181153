"""Jobs, by the command line `telar`."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from telar import _native


def command():
    """The program `telar`: of this package, of its build folder, or on the PATH."""
    package = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(sysconfig.get_path("scripts"), "telar"),
                 os.path.join(os.path.dirname(os.path.dirname(package)), "telar")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("telar")
    if found is None:
        raise _native.Error("the program telar is neither beside this Python nor on the PATH; install the package with pip")
    return found


def train(job, output=None, resume=False, **overrides):
    """Runs a job as `telar train` does, with its progress on standard error; returns the summary as a dict.

        telar.train("job.yaml", **{"strategy.replicas": 2, "training.epochs": 3})

    output: the folder of the run, RUN/checkpoints included. overrides: keys of the job (docs/job.md).
    Raises telar.Error if the job cannot be run, with the reason. Ctrl-C saves a checkpoint, as at the command line.
    """
    arguments = [command(), "train", os.fspath(job)]
    arguments += ["--output", os.fspath(output)] if output is not None else []
    arguments += ["--resume"] if resume else []
    for key, value in overrides.items():
        arguments += ["--set", f"{key}={json.dumps(value) if not isinstance(value, str) else value}"]
    with tempfile.TemporaryDirectory() as folder:
        summary = os.path.join(folder, "summary.json")
        with subprocess.Popen([*arguments, "--summary", summary], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True) as run:
            last = _passed_on(run)
        if run.returncode != 0:
            raise _native.Error(f"telar train ended with {run.returncode}: {last}")
        with open(summary, encoding="utf-8") as file:
            return json.load(file)


def _passed_on(run):
    """Shows what a program writes to standard error, until it ends; its last line."""
    last = "it gave no reason"
    try:
        for line in run.stderr:
            sys.stderr.write(line)
            last = line.strip() or last
        run.wait()
    except KeyboardInterrupt:
        run.wait()  # the program received the signal, too, and saves a checkpoint
        raise
    return last
