"""Jobs and their runs, by the command line `telar`."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import numpy

from telar import _native
from telar.loaded import as_numbers


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
    arguments = [os.fspath(job)]
    arguments += ["--output", os.fspath(output)] if output is not None else []
    arguments += ["--resume"] if resume else []
    return _summary_of("train", arguments + _settings(overrides))


def evaluate(run, best=False, **overrides):
    """The means of the metrics over the test samples of a run's job, as `telar evaluate` has them.

        telar.evaluate("runs/job-1")["test_accuracy"]

    run: the folder of a run, or one of its checkpoints. best: by the best epoch's parameters, not the newest.
    Returns a dict: "test_" and the name of each metric, and "samples". Raises telar.Error.
    """
    return _summary_of("evaluate", [os.fspath(run), *_which(best), *_settings(overrides)])


class Predictions(numpy.ndarray):
    """The predictions of a run: a NumPy array, and the names of its columns.

    classes: the names of the classes in the order of the columns; None of a model without classes, and of arrays that are
    made from this one: they may have other columns.
    """

    classes = None

    def likeliest(self):
        """The name of the likeliest class of each sample; None where a probability is not a number."""
        if self.classes is None:
            raise _native.Error("these predictions have no names of classes; only what telar.predict() returns has them")
        rows = numpy.asarray(self)
        return [None if numpy.isnan(row).any() else self.classes[row.argmax()] for row in rows]


def predict(run, x, best=False, **overrides):
    """The predictions of a trained run, as `telar predict` has them: of classes, their probabilities.

        predictions = telar.predict("runs/job-1", images)
        predictions.classes, predictions.argmax(1), predictions.likeliest()

    run, best: as in evaluate(). x: samples in the form of the job's data, which normalises them as in training; a NumPy array
    or anything with DLPack, [N, ...]; of a table also a DataFrame, whose columns are found by their names. Bytes (uint8) are
    divided by 255 if the job's own samples are. Returns Predictions: float32 [N, classes], or [N, values] of a model without
    classes.
    Raises telar.Error.
    """
    array = numpy.ascontiguousarray(as_numbers(x, "x"))  # a DataFrame's columns may be in Fortran's order
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "predictions.csv")
        if hasattr(x, "columns") and _is_of_a_table(run):
            samples = _table_of(array, x.columns, folder)
            overrides = {"data.header": "true", "data.separator": "comma"} | overrides
        else:
            samples = os.path.join(folder, "x.npy")
            numpy.save(samples, array)
        _run("predict", [os.fspath(run), samples, "--all", "--out", table, *_which(best), *_settings(overrides)])
        with open(table, encoding="utf-8", newline="") as file:
            columns, *rows = csv.reader(file)
    # The file, the number of the sample and the cells of data.drop come before the values, and of classes the likeliest one
    # and its probability.
    first = max(i for i in range(2, len(columns)) if columns[i] == "value_0" or columns[i:i + 2] == ["class", "probability"])
    has_classes = columns[first] == "class"
    before = first + 2 if has_classes else first
    predictions = numpy.array([row[before:] for row in rows], dtype=numpy.float32).view(Predictions)
    if has_classes:
        predictions.classes = [column[len("p("):-len(")")] for column in columns[before:]]
    return predictions


def _is_of_a_table(run):
    """Whether a run, or the run of a checkpoint, was trained on a table."""
    try:
        with open(os.path.join(run, "job.yaml"), encoding="utf-8") as file:
            return re.search(r"^ +source: csv$", file.read(), re.MULTILINE) is not None
    except OSError:
        return False  # `telar predict` says what is wrong


def _table_of(array, columns, folder):
    """A file with a table of these columns. It has all digits of the numbers."""
    path = os.path.join(folder, "x.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([str(name) for name in columns])
        writer.writerows(numpy.where(array, 1, 0).tolist() if array.dtype == bool else array.tolist())
    return path


def _which(best):
    return ["--best"] if best else []


def _settings(overrides):
    return [word for key, value in overrides.items()
            for word in ("--set", f"{key}={json.dumps(value) if not isinstance(value, str) else value}")]


def _summary_of(verb, arguments):
    """What a verb writes as its summary."""
    with tempfile.TemporaryDirectory() as folder:
        summary = os.path.join(folder, "summary.json")
        _run(verb, [*arguments, "--summary", summary])
        with open(summary, encoding="utf-8") as file:
            return json.load(file)


def _run(verb, arguments):
    with subprocess.Popen([command(), verb, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        last = _passed_on(run)
    if run.returncode != 0:
        raise _native.Error(f"telar {verb} ended with {run.returncode}: {last}")


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
