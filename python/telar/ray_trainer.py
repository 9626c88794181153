"""Trains a job inside Ray Train: telar.ray.trainer (docs/cluster.md)."""

import json
import os
import pathlib
import queue
import secrets
import shutil
import subprocess
import tempfile
import threading

import numpy as np
import ray
import ray.train
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from telar import _native
from telar.lines import Lines
from telar.run import _settings, command

_LOOK = 0.05  # seconds
_JOIN = 120  # seconds, in which all processes have to join
_ADDRESS = "@address "  # what `telar train --supervised` says before its address


def trainer(job, scaling_config=None, run_config=None, datasets=None, label=None, certificates=None, insecure_network=False,
            **overrides):
    """See telar.ray.trainer."""
    if not isinstance(job, dict):
        try:
            job = pathlib.Path(job).read_text(encoding="utf-8")
        except OSError as error:
            raise _native.Error(f"{job}: {error.strerror}") from error
    if datasets and (set(datasets) != {"train"} or label is None):
        raise _native.Error('datasets={"train": a dataset} gives the samples, and label names the column with what is to be predicted')
    words = [word for option in ({"--certificates": certificates} if certificates else {}).items() for word in map(str, option)]
    config = {"job": job if isinstance(job, str) else json.dumps(job), "overrides": overrides, "label": label if datasets else None,
              "words": words + ["--insecure-network"] * insecure_network}
    return DataParallelTrainer(_train, train_loop_config=config, scaling_config=scaling_config, run_config=run_config, datasets=datasets)


def _train(config):
    """In each worker of Ray Train."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        samples = {} if config["label"] is None else _written(ray.train.get_dataset_shard("train"), config["label"], folder)
        if ray.train.get_context().get_world_rank() == 0:
            _lead(config, folder, samples)
        else:
            _follow(config, samples)


def _lead(config, folder, samples):
    try:
        _train_and_report(config, folder, samples)
    except _native.Error as error:
        broadcast_from_rank_zero({"error": str(error)})
        raise
    broadcast_from_rank_zero({"over": True})


def _train_and_report(config, folder, samples):
    context = ray.train.get_context()
    workers, run = context.get_world_size(), folder / "run"
    (folder / "job.yaml").write_text(config["job"], encoding="utf-8")
    words = ["train", folder / "job.yaml", "--output", run, *config["words"]]
    after = 0  # the step of the checkpoint from which it goes on
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as stored:
            shutil.copytree(stored, run)
        after = max(_checkpoints(run), default=0)
        words.append("--resume")
    token = secrets.token_hex(16)
    if workers > 1:
        host = "127.0.0.1" if context.get_local_world_size() == workers else ray.util.get_node_ip_address()
        words += ["--workers", workers, "--coordinate", f"{host}:0", "--wait", _JOIN]
    process = _Process(words + _settings(config["overrides"]) + _settings(samples), token)
    try:
        if workers > 1:
            broadcast_from_rank_zero({"address": process.address(), "token": token})
        reports = _Reports(run, after, folder)
        while process.running():
            reports.look()
        process.require_success()
        reports.end()
    finally:
        process.end()


def _follow(config, samples):
    process = None
    try:
        while True:
            word = broadcast_from_rank_zero(None)
            if "error" in word:
                raise _native.Error(word["error"])
            if "over" in word:
                return process.require_success()
            if "report" in word:
                ray.train.report(word["report"])
            else:
                paths = {key: value for key, value in samples.items() if key.endswith("path")}
                process = _Process(["work", "--join", word["address"], *config["words"], *_settings(paths)], word["token"])
    finally:
        if process is not None:
            process.end()


class _Process:
    """A process of telar that ends with this one."""

    def __init__(self, words, token):
        environment = {"TELAR_TOKEN": token, **os.environ}
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU")
        if cpus:
            environment = {"OMP_THREAD_LIMIT": str(max(1, int(cpus))), **environment}
        verb, *rest = map(str, words)
        self._process = subprocess.Popen([command(), verb, "--supervised", *rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, env=environment)
        self._why = "it gave no reason"
        self._addresses = queue.SimpleQueue()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_output, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def address(self):
        """Where the others join. Raises telar.Error if there is none."""
        address = self._addresses.get()
        if address is None:
            self.require_success()
            raise _native.Error("the run ended before others could join")
        return address

    def running(self):
        """Waits a moment."""
        try:
            self._process.wait(_LOOK)
        except subprocess.TimeoutExpired:
            return True
        return False

    def require_success(self):
        self._process.wait()
        for reader in self._readers:
            reader.join()
        if self._process.returncode != 0:
            raise _native.Error(f"telar ended with {self._process.returncode}: {self._why}")

    def end(self):
        self._process.stdin.close()
        self._process.wait()

    def _read_output(self):
        for line in self._process.stdout:
            if line.startswith(_ADDRESS):
                self._addresses.put(line.removeprefix(_ADDRESS).strip())
            elif not line.startswith("@"):
                print(line, end="", flush=True)
        self._addresses.put(None)

    def _read_errors(self):
        for line in self._process.stderr:
            print(line, end="", flush=True)
            if line.startswith("error: ") or not self._why.startswith("error: "):
                self._why = line.strip() or self._why


class _Reports:
    """What Ray is told of a run: each epoch, and each checkpoint with the epoch that it ends. A report takes Ray a second; of what
    comes faster, the newest is reported."""

    def __init__(self, run, after, folder):
        self.run, self.folder, self.after = run, folder, after
        self.reported = after  # the step of the last checkpoint
        self.lines = Lines(run / "metrics.jsonl")
        self.epochs = {}  # by their steps, those that may still be reported, and the last one

    def look(self):
        """An epoch without a checkpoint is reported after the next one, because a checkpoint is written behind the training."""
        self._read()
        step = max(_checkpoints(self.run), default=0)
        if step > self.reported:
            self._report_checkpoint(step, self.epochs.get(step, {"step": step}))
        *_, epoch, newest = (None, None, *self.epochs)
        if epoch is not None:
            if epoch > self.reported:
                _report(self.epochs[epoch])
            self.epochs = {newest: self.epochs[newest]}

    def end(self):
        """The last report has what the summary has."""
        self._read()
        step = max(_checkpoints(self.run))
        summary = json.loads((self.run / "summary.json").read_text(encoding="utf-8"))
        self._report_checkpoint(step, self.epochs.get(step, {"step": step}) |
                                {key: value for key, value in summary.items() if isinstance(value, (int, float, str))})

    def _read(self):
        for record in self.lines.new():
            if record["kind"] == "epoch" and record["step"] > self.after:
                self.epochs[record["step"]] = record

    def _report_checkpoint(self, step, metrics):
        """With a folder that `train --resume`, `evaluate` and telar.load take as a run: this checkpoint and the best."""
        copy = self.folder / "reported"
        copy.mkdir()
        try:
            for path in self.run.iterdir():
                if path.is_file():
                    shutil.copy2(path, copy)
            try:
                self._copy_checkpoints(step, copy)
            except FileNotFoundError:  # it is being removed, because there are later ones (output.keep)
                return
            self.reported = step
            _report(metrics, ray.train.Checkpoint.from_directory(copy))
        finally:
            shutil.rmtree(copy)

    def _copy_checkpoints(self, step, copy):
        stored = self.run / "checkpoints"
        best = json.loads((stored / _name(step) / "state.json").read_text(encoding="utf-8")).get("best_step", step)
        for kept in {step, best} & {step, *_checkpoints(self.run)}:
            shutil.copytree(stored / _name(kept), copy / "checkpoints" / _name(kept), copy_function=os.link)


def _report(record, checkpoint=None):
    metrics = {key: value for key, value in record.items() if key != "kind"}
    if ray.train.get_context().get_world_size() > 1:
        broadcast_from_rank_zero({"report": metrics})
    ray.train.report(metrics, checkpoint=checkpoint)


def _name(step):
    return f"step-{step:08}"


def _checkpoints(run):
    """The steps of the complete ones."""
    folder = run / "checkpoints"
    names = os.listdir(folder) if folder.is_dir() else []
    return [int(name.removeprefix("step-")) for name in names if name.removeprefix("step-").isdigit()]


def _numbers(name, values):
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise _native.Error(f"the column {name} of the dataset is not of numbers, or of arrays of one shape, but of {values.dtype}")
    return values


def _written(shard, label, folder):
    """Writes a worker's part of a dataset of Ray; returns the keys of the job that name it."""
    features, labels = [], []
    for batch in shard.iter_batches(batch_format="numpy"):
        if label not in batch:
            raise _native.Error(f"the dataset has no column {label}: it has " + ", ".join(batch))
        labels.append(_numbers(label, batch.pop(label)))
        columns = [_numbers(name, values).astype(np.float32) for name, values in batch.items()]
        features.append(columns[0] if len(columns) == 1 and columns[0].ndim > 1 else np.stack(columns, axis=1))
    if not labels:
        raise _native.Error("a worker has no sample of the dataset: give it more rows, or fewer workers")
    labels = np.concatenate(labels)
    np.save(folder / "features.npy", np.concatenate(features))
    np.save(folder / "labels.npy", labels.astype(np.float32 if labels.dtype.kind == "f" else np.int32))
    return {"data.source": "npy", "data.path": str(folder / "features.npy"), "data.label_path": str(folder / "labels.npy"),
            "data.spread": ray.train.get_context().get_world_size() > 1}
