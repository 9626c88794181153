"""A model that predicts its input, which shows every number that Telar reads; for the tests that draw files at random."""

import csv
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy

import telar
from telar import _native
from telar.run import command


def graph(shape, kind):
    """The input itself as the prediction; the loss is of a number that is computed from it."""
    count = math.prod(shape)
    builder = _native.GraphBuilder()
    x = builder.input("x", "f32", [2, *shape])
    (flat,) = builder.add("reshape", [x], {"dims": [-1, count]})
    (y,) = builder.add("linear", [flat, builder.parameter("w", [count, count]), builder.parameter("b", [count])])
    if kind == "prediction":
        builder.output("prediction", y)
        return builder
    (value,) = builder.add("linear", [y, builder.parameter("v", [1, count]), builder.parameter("c", [1])])
    (total,) = builder.add("mean_squared_error", [value, builder.input("label", "f32", [2, 1])])
    builder.add("accumulate", [builder.metric("loss"), total])
    return builder


def make_run(shape, data, folder):
    """A run on `data`, as in a job, in an empty folder."""
    count = math.prod(shape)
    parameters = {"w": numpy.eye(count), "b": numpy.zeros(count), "v": numpy.zeros((1, count)), "c": numpy.zeros(1)}
    parameters = {name: value.astype("f4") for name, value in parameters.items()}
    file = os.path.join(folder, "identity.telar")
    _native.Model.of_graphs("identity", graph(shape, "loss"), graph(shape, "loss"), graph(shape, "prediction"),
                            [(name, "trained", 0.0, value) for name, value in parameters.items()], ["loss"]).write(file, parameters)
    job = {"model": {"file": file}, "training": {"epochs": 1, "batch": 2}, "optimizer": {"name": "sgd", "learning_rate": 1e-30},
           "data": {**data, "classes": 0, "validation": 0}}
    with open(os.path.join(folder, "job.yaml"), "w", encoding="utf-8") as output:
        json.dump(job, output)
    run = os.path.join(folder, "run")
    telar.train(os.path.join(folder, "job.yaml"), output=run)
    return run


def predicted(run, paths):
    """The predictions for the samples of each file: [samples, numbers]. One process for all files."""
    out = run + ".csv"
    done = subprocess.run([command(), "predict", run, *paths, "--out", out], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = {path: [] for path in paths}
    with open(out, encoding="utf-8", newline="") as file:
        for path, _, *values in list(csv.reader(file))[1:]:
            found[path].append(values)
    return {path: numpy.array(rows, dtype="f4") for path, rows in found.items()}


def main(check):
    """check(count, seed, folder), with the numbers of the command line: [COUNT [SEED]]."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        check(count, seed, folder)
