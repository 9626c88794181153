"""telar.ray on a cluster of Ray of two nodes, of which the second is lost (scripts/launch-test ray).

    check_ray.py ADDRESS PYTHON         PYTHON: one without Ray

The current folder has job.yaml and certificates. Prints "lose a node" when that is to happen.
"""

import os
import sys
from unittest import mock

import telar
import telar.ray

address, without_ray = sys.argv[1:]
JOB = {
    "name": "of_python",
    "model": {"name": "mlp", "options": {"hidden": [768, 768]}},
    "data": {"source": "synthetic", "samples": 1536, "test_samples": 64, "shape": [1, 16, 16], "classes": 10, "validation": 0},
    "optimizer": {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "training": {"epochs": 40, "batch": 256, "seed": 3},
    "output": {"tensorboard": False, "checkpoint_epochs": 0, "checkpoint_steps": 40},
    "strategy": {"name": "mirrored", "replicas": 1, "threads": 1},
}


def train(job, num_workers, **options):
    return telar.ray.train(job, num_workers=num_workers, certificates="certificates", **{"address": address} | options)


def refused(text, *arguments, **options):
    try:
        list(train(*arguments, **options))
    except telar.Error as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"there was no error: {text}")


refused("there are places for 4 only", "job.yaml", 100)
refused("the run is to have 5 processes, but there are places for 4 only", JOB, (5, 9))
refused("num_workers is (3, 2)", JOB, (3, 2))
refused("unknown key 'layers'", JOB | {"layers": 3}, 1)
refused("no-job.yaml: there is no such file", "no-job.yaml", 1)
refused("there is no cluster of Ray at 127.0.0.1:1", JOB, 1, address="127.0.0.1:1")
with mock.patch.object(sys, "executable", without_ray):
    refused("has no Ray", JOB, 1)

run = train(JOB, (1, 3), storage_path=os.path.abspath("stored-by-python"))
records = []
for record in run:
    records.append(record)
    if record["kind"] == "step" and record["step"] == 50:
        print("lose a node", flush=True)
assert [record["step"] for record in records if record["kind"] == "step"] == list(range(1, 241)), records
checkpoints = [record for record in records if record["kind"] == "checkpoint"]
assert [record["step"] for record in checkpoints] == [40, 80, 120, 160, 200, 240], checkpoints
assert [record["lost"] for record in records if record["kind"] == "recovery"], "no worker was lost"
assert os.path.samefile(run.folder, "runs/of_python-1")
assert run.result["checkpoint"] == checkpoints[-1]["path"] and os.path.isdir(run.result["checkpoint"])
assert run.result["steps"] == 240 and run.result["test_accuracy"] > 0.9, run.result
assert any("step-00000240" in path for path, *_ in os.walk("stored-by-python"))

over = train(JOB, 1, output=run.folder, resume=True)
assert list(over) == [] and over.result == run.result

endless = {"training.epochs": 100000}
stopped = train(JOB, (1, 4), output="stopped", **endless)
next(record for record in stopped if record["step"] == 50)
stopped.stop()
refused("telar launch ended with 2: error: stopped already contains a run", JOB, 1, output="stopped")
further = train(JOB, (1, 4), output="stopped", resume=True, **endless)
assert next(iter(further))["step"] > 50
further.stop()
