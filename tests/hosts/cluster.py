"""Runs telar with parameter servers on this machine, for scripts/faults."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

TOKEN = "a-token-for-the-faults"
JOB = """
model: {name: mlp, options: {hidden: [128]}}
data: {source: fashion-mnist, validation: 0}
optimizer: {name: sgd, learning_rate: 0.05}
training: {batch: 64, seed: 3}
output: {tensorboard: false, checkpoint_epochs: 0}
"""
SNAPSHOT_SECONDS = 1


class Failed(Exception):
    """A check has failed; the text describes the failure."""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Run:
    """A run of `telar train` in its own folder."""

    def __init__(self, telar, folder, strategy, epochs, extra=()):
        self.telar = telar
        self.folder = folder
        self.killed = []  # what this script has killed
        folder.mkdir(parents=True)
        (folder / "job.yaml").write_text(JOB)
        self.process = self.start(
            "train", [folder / "job.yaml", "--output", folder / "run", "--quiet",
                      "--set", f"strategy.name={strategy}", "--set", "strategy.workers=2",
                      "--set", "strategy.servers=2", "--set", "strategy.placement=partitioned",
                      "--set", "strategy.threads=1", "--set", f"strategy.snapshot_seconds={SNAPSHOT_SECONDS}",
                      "--set", f"training.epochs={epochs}", *extra])

    def start(self, verb, words, name=None):
        with open(self.folder / f"{name or verb}.log", "ab") as log:
            return subprocess.Popen([self.telar, verb, *map(str, words)], stdout=log,
                                    stderr=subprocess.STDOUT, env={**os.environ, "TELAR_TOKEN": TOKEN})

    def running(self):
        return self.process.poll() is None

    def job_id(self):
        return (self.folder / "run" / "run_id").read_text().strip()

    def logs(self, pattern="*.log"):
        return "".join(log.read_text(errors="replace") for log in sorted(self.folder.rglob(pattern)))

    def finish(self, seconds):
        """Waits for the end of the run; returns its summary."""
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed(f"{self.folder.name} hangs: it has not ended within {seconds:.0f} s:\n{self.tails()}") from None
        except BaseException:
            self.process.terminate()
            raise
        if code != 0:
            raise Failed(f"{self.folder.name} ended with exit code {code}:\n{self.tails()}")
        return json.loads((self.folder / "run" / "summary.json").read_text())

    def tails(self):
        return "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:])
                         for log in sorted(self.folder.rglob("*.log")))

    def joined_seconds(self):
        """The seconds that each worker needed to receive parameters and data after it had joined."""
        return [float(found) for found in re.findall(r"has parameters and data, ([0-9.]+) s", self.logs())]

    def lost_updates(self):
        return [int(found) for found in re.findall(r"has lost (\d+) updates since its snapshot", self.logs())]


class Embedded(Run):
    """`telar train` starts, watches and restarts the servers and workers."""

    def children(self, verb):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and verb.encode() in words:
                found.append(int(entry.name))
        return sorted(found)

    def servers(self):
        return [(self.folder / "run" / "servers" / str(s) / "address").read_text().strip() for s in (0, 1)]

    def coordinator(self):
        for child in self.children("work"):
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            return words[words.index(b"--join") + 1].decode()
        return None

    def events(self):
        return self.logs("events.log")


class Apart(Run):
    """Separate processes, as on several hosts, connected through relays. This script restarts dead ones."""

    def __init__(self, telar, folder, strategy, epochs, workers):
        ports = free_ports(6)
        self.coordinator_port, *self.server_ports = ports[:3]
        through = ports[3:]
        self.relay = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).parent / "relay.py",
             *[f"127.0.0.1:{port}=127.0.0.1:{to}" for port, to in zip(through, ports[:3], strict=True)]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.relay.stdout.readline()
        addresses = ", ".join(f"127.0.0.1:{port}" for port in through[1:])
        super().__init__(telar, folder, strategy, epochs,
                         ["--coordinate", f"127.0.0.1:{self.coordinator_port}",
                          "--set", f"strategy.server_addresses=[{addresses}]"])
        self.join = ["--join", f"127.0.0.1:{through[0]}", "--set", "strategy.threads=1"]
        self.serving = [None, None]
        self.working = [None] * workers
        self.look_after()

    def look_after(self):
        """Does a supervisor's work: restarts the processes that have died."""
        for s, server in enumerate(self.serving):
            if server is None or server.poll() is not None:
                self.serving[s] = self.start(
                    "serve", ["--listen", f"127.0.0.1:{self.server_ports[s]}", "--snapshots",
                              self.folder / f"server-{s}", "--snapshot-seconds", SNAPSHOT_SECONDS],
                    f"server-{s}")
        for w, worker in enumerate(self.working):
            if worker is None or (worker.poll() is not None and worker.returncode != 0):
                if worker is not None and worker.returncode != -signal.SIGKILL:
                    raise Failed(f"worker {w} ended with exit code {worker.returncode}:\n{self.tails()}")
                self.working[w] = self.start("work", self.join, f"worker-{w}")

    def servers(self):
        return [f"127.0.0.1:{port}" for port in self.server_ports]

    def coordinator(self):
        return f"127.0.0.1:{self.coordinator_port}"

    def tell_relay(self, word):
        self.relay.stdin.write(word + "\n")
        self.relay.stdin.flush()

    def events(self):
        return self.logs("events.log")

    def finish(self, seconds):
        summary = super().finish(seconds)
        for w, worker in enumerate(self.working):
            try:
                code = worker.wait(timeout=10)
            except subprocess.TimeoutExpired:
                # It lost its connection, or started, as the run ended, and still looks for the coordinator.
                worker.terminate()
                code = worker.wait(timeout=30)
            if code not in (0, -signal.SIGKILL, 143):
                raise Failed(f"worker {w} ended with exit code {code}:\n{self.tails()}")
        for s, server in enumerate(self.serving):
            server.terminate()
            if server.wait(timeout=30) != 143:
                raise Failed(f"server {s} ended with exit code {server.returncode} after SIGTERM:\n{self.tails()}")
        return summary

    def end(self):
        """Kills all processes that still run."""
        for process in [self.process, *self.working, *self.serving, self.relay]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
