"""A cluster of Ray on this machine, of nodes with two processors each, whatever the machine has.

    with RayCluster(2, folder) as cluster:
        print(cluster.python, cluster.address)

Only its own processes are ended: another cluster may be on this machine.
"""

import os
import pathlib
import signal
import subprocess
import time

from hosts import CannotBeHere
from slurm import free_ports, parent_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CPUS = 2


class RayCluster:
    def __init__(self, nodes, folder):
        done = subprocess.run([ROOT / "scripts" / "install-ray", "--run", "-c", "import sys; print(sys.executable)"],
                              capture_output=True, text=True, check=False)
        if done.returncode == 77:
            raise CannotBeHere(done.stdout.strip().removeprefix("SKIPPED: "))
        self.python = done.stdout.strip()
        self.count = nodes
        self.folder = folder
        self.nodes = []
        self.environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}

    def __enter__(self):
        self.folder.mkdir(parents=True)
        self.port, = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        try:
            for _ in range(self.count):
                self.begin_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in reversed(self.nodes):
            node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            try:
                node.wait(30)
            except subprocess.TimeoutExpired:
                node.kill()

    def ask(self, expression):
        """A value of Ray's, as text."""
        text = f"import ray; ray.init(address='{self.address}', logging_level='ERROR', log_to_driver=False); print({expression})"
        done = subprocess.run([self.python, "-c", text], env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def begin_node(self):
        """Starts a node, and waits until the cluster knows it."""
        which = ["--head", "--port", str(self.port), "--include-dashboard=false", f"--temp-dir={self.folder}/ray"] if not self.nodes \
            else ["--address", self.address]
        known = self.ask("len(ray.nodes())") if self.nodes else "0"
        log = open(self.folder / f"node-{len(self.nodes)}.log", "ab")
        self.nodes.append(subprocess.Popen(
            [pathlib.Path(self.python).parent / "ray", "start", "--block", "--num-cpus", str(CPUS), "--disable-usage-stats", *which],
            env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        end = time.monotonic() + 120
        while self.ask("len(ray.nodes())") in ("", known):
            if time.monotonic() > end or self.nodes[-1].poll() is not None:
                raise CannotBeHere(f"no node of Ray could be started: {(self.folder / f'node-{len(self.nodes) - 1}.log').read_text()}")
            time.sleep(0.1)

    def raylet(self, node):
        """The process that is the node for the others."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if parent_of(process.name) == self.nodes[node].pid and "/raylet/raylet" in (process / "cmdline").read_text():
                    return int(process.name)
            except OSError:
                continue
        raise RuntimeError(f"node {node} has no raylet")

    def end_node(self, node, processes):
        """It is lost, with those of these processes that run on it."""
        raylet = self.raylet(node)
        here = [process for process in processes
                if f"RAY_RAYLET_PID={raylet}" in pathlib.Path(f"/proc/{process}/environ").read_text().split("\0")]
        for process in (*here, raylet):
            os.kill(process, signal.SIGKILL)
        return here
