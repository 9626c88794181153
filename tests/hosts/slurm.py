"""A cluster of Slurm on this machine: a controller and some nodes, without systemd. Needs root.

    with Slurm(["n1", "n2"], folder) as slurm:
        slurm.run("sbatch", "--wait", ...)

All nodes have the address 127.0.0.1 and ports of their own, and four processors each, whatever the machine has.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from hosts import CannotBeHere

CONFIGURATION = """
ClusterName=telar
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
ReturnToService=2
SlurmdTimeout=4
MessageTimeout=3
KillWait=10
SwitchType=switch/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def tasks_of(node):
    """The processes that steps have started on a node, by what Slurm has put into their environment."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"SLURMD_NODENAME={node}" in (process / "environ").read_text().split("\0") and \
                    pathlib.Path(f"/proc/{parent_of(process.name)}/comm").read_text().startswith("slurmstepd"):
                yield int(process.name)
        except OSError:
            continue


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class Slurm:
    def __init__(self, nodes, folder):
        if os.geteuid() != 0:
            raise CannotBeHere("daemons of Slurm need root")
        for program in ("slurmctld", "slurmd", "munged", "srun"):
            if shutil.which(program) is None:
                raise CannotBeHere(f"the program {program} is missing (scripts/setup engines)")
        self.nodes = nodes
        self.folder = folder
        self.daemons = {}
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self):
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        (self.folder / "munge.key").chmod(0o600)
        controller, *ports = free_ports(1 + len(self.nodes))
        host = socket.gethostname()
        text = CONFIGURATION.format(host=host, port=controller, folder=self.folder)
        for node, port in zip(self.nodes, ports):
            text += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN\n"
        text += "PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1\n"
        text += "PartitionName=urgent Nodes=ALL State=UP PriorityTier=2\n"
        (self.folder / "slurm.conf").write_text(text)
        munge = [f"--{what}-file={self.folder}/munge.{what}" for what in ("key", "log", "pid", "seed")]
        try:
            self.daemon("munged", ["--foreground", "--force", f"--socket={self.folder}/munge.socket", *munge])
            self.await_true(lambda: (self.folder / "munge.socket").exists(), "munged made no socket")
            self.daemon("slurmctld", ["-D"])
            for node in self.nodes:
                self.begin_node(node)
            self.await_true(lambda: self.states().count("idle") == len(self.nodes), "the nodes are not idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons.values()):
            if daemon.poll() is None:
                daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def daemon(self, name, words):
        log = open(self.folder / f"{name}.out", "ab")
        self.daemons[name] = subprocess.Popen([name.split("-")[0], *words], env=self.environment, stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL)

    def begin_node(self, node):
        self.daemon(f"slurmd-{node}", ["-D", "-N", node])

    def end_node(self, node):
        """As if its machine had lost its power: slurmd, and all steps there."""
        self.daemons[f"slurmd-{node}"].kill()
        for pid in tasks_of(node):
            for one in (parent_of(pid), pid):  # slurmstepd first: it would report the task's end
                os.kill(one, signal.SIGKILL)

    def await_true(self, condition, otherwise, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise CannotBeHere(f"{otherwise}; {self.folder} has the logs of Slurm")
            time.sleep(0.05)

    def states(self):
        return self.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T").stdout.split()

    def run(self, *words, **options):
        return subprocess.run(list(map(str, words)), env=self.environment, capture_output=True, text=True, check=False, **options)

    def start(self, *words, log):
        return subprocess.Popen(list(map(str, words)), env=self.environment, stdin=subprocess.DEVNULL, stdout=open(log, "ab"),
                                stderr=subprocess.STDOUT)
