"""telar.ray.trainer on a cluster of Ray of two nodes (scripts/launch-test ray).

    check_ray_train.py ADDRESS

The current folder has certificates. When ray-train/killed has checkpoints, one of telar's processes is to be killed.
"""

import json
import os
import pathlib
import sys

import numpy as np
import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig

import telar
import telar.ray

here = pathlib.Path.cwd()
JOB = {
    "name": "in_ray_train",
    "model": {"name": "mlp", "options": {"hidden": [768, 768]}},
    "data": {"source": "synthetic", "samples": 1536, "test_samples": 64, "shape": [1, 16, 16], "classes": 10, "validation": 0},
    "optimizer": {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "training": {"epochs": 40, "batch": 256, "seed": 3},
    "output": {"tensorboard": False},
    "strategy": {"name": "mirrored", "replicas": 1, "threads": 1},
}


def fit(job, workers, name, failures=0, **options):
    return telar.ray.trainer(
        job, ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1}),
        RunConfig(name=name, storage_path=str(here / "ray-train"), failure_config=FailureConfig(max_failures=failures)),
        certificates=str(here / "certificates"), **options).fit()


def losses(folder):
    """By epoch: each once, whatever was made again."""
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [(record["step"], record["train_loss"]) for record in map(json.loads, lines) if record["kind"] == "epoch"]


def refused(text, *arguments, **options):
    try:
        fit(*arguments, **options)
    except Exception as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"there was no error: {text}")


ray.init(address=sys.argv[1], log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})
(here / "alone.yaml").write_text(json.dumps(JOB))
alone = telar.train("alone.yaml", output="alone-in-python")

# A process is killed: Ray starts all again, and the run goes on from the checkpoint that it was told last.
result = fit(JOB, 3, "killed", failures=1)
with result.checkpoint.as_directory() as run:
    assert [step for step, _ in losses(run)] == [6 * epoch for epoch in range(1, 41)], losses(run)
    assert np.allclose([loss for _, loss in losses(run)], [loss for _, loss in losses("alone-in-python")], rtol=1e-5)
    assert abs(telar.evaluate(run)["test_accuracy"] - alone["test_accuracy"]) < 1e-6
assert result.metrics["epochs"] == 40 and 0 < result.metrics["since_step"] < 240, result.metrics
assert result.metrics["test_accuracy"] == alone["test_accuracy"], result.metrics
reported = zip(result.metrics_dataframe["step"], result.metrics_dataframe["train_loss"])
assert all(np.isclose(loss, dict(losses("alone-in-python"))[step], rtol=1e-5) for step, loss in reported), result.metrics_dataframe

# A dataset of Ray: each worker has a part of it.
draw = np.random.default_rng(5)
labels = draw.integers(0, 3, 600)
features = draw.normal(size=(600, 4)).astype(np.float32) + 3 * labels[:, None]
rows = [{"a": float(row[0]), "b": float(row[1]), "c": float(row[2]), "d": float(row[3]), "kind": int(label)} for row, label in zip(features, labels)]
table = JOB | {"data": {"validation": 0.1, "test": 0}, "training": {"epochs": 20, "batch": 32, "seed": 3}, "optimizer": {"name": "adam", "learning_rate": 0.01}}
shards = fit(table, 2, "shards", datasets={"train": ray.data.from_items(rows)}, label="kind")
assert shards.metrics["validation_accuracy"] > 0.95, shards.metrics
with shards.checkpoint.as_directory() as run:
    sizes = json.loads((pathlib.Path(run) / "data.json").read_text())
    assert sizes["train"] + sizes["validation"] == 600, sizes

refused("unknown key 'layers'", JOB | {"layers": 3}, 2, "unknown")


class Shard:
    def __init__(self, **columns):
        self.columns = columns

    def iter_batches(self, **_):
        return iter([dict(self.columns)] if self.columns else [])


for text, shard in {"the dataset has no column kind: it has a": Shard(a=[1.0]), "a worker has no sample": Shard(),
                    "the column city of the dataset is not of numbers": Shard(city=["Rome"], kind=[1]),
                    "the column kind of the dataset is not of numbers": Shard(a=[1.0], kind=["yes"])}.items():
    try:
        telar.ray_trainer._written(shard, "kind", here)
    except telar.Error as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"there was no error: {text}")
for wrong in ({"datasets": {"train": None}}, {"datasets": {"test": None}, "label": "kind"}):
    try:
        telar.ray.trainer(JOB, **wrong)
    except telar.Error as error:
        assert "label names the column" in str(error), error
    else:
        raise AssertionError(f"there was no error: {wrong}")
