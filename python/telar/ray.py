"""Trains a job on the nodes of a cluster of Ray, as `telar launch --on ray` does (docs/cluster.md).

    run = telar.ray.train("job.yaml", num_workers=(2, 4), storage_path="s3://bucket/run")
    for record in run:                     # as they come: steps, epochs, checkpoints
        print(record["kind"], record["step"])
    print(run.result["test_accuracy"], run.result["checkpoint"])
"""

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from telar import _native
from telar.lines import Lines
from telar.run import _settings, command

_LOOK = 0.05  # seconds


def train(job, num_workers=None, storage_path=None, address="auto", output=None, resume=False, cpus=1, certificates=None,
          insecure_network=False, **overrides):
    """Begins to train a job, each of its processes under an actor of its own; returns the Run.

    job: the path of a job, or a job as a dict. num_workers: how many processes train; (least, most): as many as there are
    places, and while the run goes on at least so many (strategy.min_workers); None: one in each place, or what the strategy
    says of its workers. storage_path: where checkpoints are stored, too, and the run goes on from (output.storage).
    address: of the cluster; "auto": the one of which this host is a node. output: the run's folder. cpus: of each process;
    0: all of its node. certificates, insecure_network: as of `telar launch`, if the cluster has several hosts.
    overrides: keys of the job. Raises telar.Error; what is wrong with the job or the cluster, the Run says.
    """
    least, most = num_workers if isinstance(num_workers, (tuple, list)) else (None, num_workers)
    if least is not None:
        if not 1 <= least <= most:
            raise _native.Error(f"num_workers is {num_workers}; it must be a number of processes, or the least and the greatest")
        overrides = {"strategy.min_workers": least} | overrides
    files = tempfile.TemporaryDirectory()
    if isinstance(job, dict):
        path = os.path.join(files.name, "job.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        job = path
    options = {"--on": "ray", "--python": sys.executable, "--address": address, "--processes": most, "--cpus": cpus,
               "--storage": storage_path, "--output": output, "--certificates": certificates}
    words = [command(), "launch", os.fspath(job)]
    words += [str(word) for option in options.items() if option[1] is not None for word in option]
    words += ["--insecure-network"] * insecure_network + ["--resume"] * resume
    return Run(words + _settings(overrides), files)


def trainer(job, scaling_config=None, run_config=None, datasets=None, label=None, certificates=None, insecure_network=False,
            **overrides):
    """A DataParallelTrainer of Ray Train, each of whose workers is a process of the job: result = telar.ray.trainer(...).fit().

    Each epoch and each checkpoint is reported; a checkpoint of result is the folder of a run, with the checkpoint and the best.
    Where a worker fails, Ray starts all of them again from the last checkpoint, as run_config.failure_config says: unlike
    train(), where the others go on.

    job: the path of a job here, or a job as a dict; paths in it are those of each node. scaling_config, run_config: of Ray Train.
    datasets: {"train": a ray.data.Dataset}, of which each worker writes its part to the disk of its node and trains on it
    (data.spread); label: its column that is predicted, and the others are the features: numbers, or one column of arrays.
    certificates: a folder on each node; this or insecure_network, if the workers are on several nodes. overrides: keys of the
    job. Raises telar.Error. What is wrong with the job, fit() says.
    """
    try:
        from telar.ray_trainer import trainer as of_ray_train
    except ImportError as error:
        raise _native.Error(f"telar.ray.trainer needs Ray Train, and {error}: pip install 'ray[train]'") from error
    return of_ray_train(job, scaling_config, run_config, datasets, label, certificates, insecure_network, **overrides)


class Run:
    """A run of train(). Its elements are its records, as they come, each step once: the lines of RUN/metrics.jsonl (docs/job.md),
    and {"kind": "checkpoint", "step": N, "path": PATH} of each complete checkpoint. It raises telar.Error if the run fails.

    folder: of the run; None until it has begun. A run that has not ended when the program does, ends with a checkpoint.
    """

    def __init__(self, words, files):
        self.folder = None
        self._files = files
        self._here = os.getcwd()
        self._after = 0  # the step of the checkpoint from which it goes on
        self._why = "it gave no reason"
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         text=True)
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_progress, self._read_errors)]
        for reader in self._readers:
            reader.start()
        self._records = self._follow()
        atexit.register(self.stop)

    def __iter__(self):
        return self._records

    @property
    def result(self):
        """The summary as a dict, with the path of the last "checkpoint". Waits until the run is over."""
        self._require_success()
        with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        return summary | {name: os.path.join(self._here, summary[name]) for name in ("folder", "checkpoint")}

    def stop(self):
        """Ends the run with a checkpoint: train(..., output=run.folder, resume=True) goes on with it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def _read_progress(self):
        for line in self._process.stdout:
            begun = re.match(r"run folder: (.*)|resuming (.*) after step (\d+) |nothing to do in (.*): ", line)
            if begun and self.folder is None:
                self._after = 0 if begun[1] else float(begun[3] or "inf")
                self.folder = os.path.join(self._here, begun[1] or begun[2] or begun[4])

    def _read_errors(self):
        for line in self._process.stderr:
            sys.stderr.write(line)
            if line.startswith("error: ") or not self._why.startswith("error: "):  # telar launch says further things about it
                self._why = line.strip() or self._why

    def _follow(self):
        metrics = None
        last = {}  # the step of the last record of each kind: a run that is started again makes some again
        over = False
        while not over:
            over = self._process.poll() is not None
            if over:
                self._await_end()  # before the last look
            if self.folder is not None:
                metrics = metrics or Lines(os.path.join(self.folder, "metrics.jsonl"))
                for record in (*metrics.new(), *self._checkpoints()):
                    if record["step"] > last.get(record["kind"], self._after):
                        last[record["kind"]] = record["step"]
                        yield record
            try:
                time.sleep(0 if over else _LOOK)
            except KeyboardInterrupt:
                self.stop()
                raise
        self._require_success()

    def _await_end(self):
        self._process.wait()
        for reader in self._readers:
            reader.join()

    def _require_success(self):
        self._await_end()
        if self._process.returncode != 0:
            raise _native.Error(f"telar launch ended with {self._process.returncode}: {self._why}")
        if not os.path.isdir(self.folder):
            raise _native.Error(f"the run is over, but its folder {self.folder} is on another host; "
                                "name with output a folder that all nodes share")

    def _checkpoints(self):
        folder = os.path.join(self.folder, "checkpoints")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name[len("step-"):].isdigit():  # otherwise it is being written
                yield {"kind": "checkpoint", "step": int(name[len("step-"):]), "path": os.path.join(folder, name)}
