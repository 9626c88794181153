"""Starts the observed processes, and collects what they recorded."""
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time

from .starters import INSIDE, OF_A_RANK, Forked

GRACE = 5  # seconds that the other ranks have after one has failed
IDLE = 30  # seconds in which no process computes anything: they wait for each other


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """The processes of one verification."""

    def __init__(self, plan, folder, starters):
        self.plan, self.folder, self.starters = plan, folder, starters
        self.started = []

    def start(self, workspace, rank=None, port=None, replay=()):
        """`rank` is None for the sequential program."""
        environment = self.environment(rank, port)
        self.started.append(
            Process(self.plan, workspace, self.folder, rank, replay, environment, self.starter(environment)))
        return self.started[-1]

    def start_ranks(self, workspace):
        port = free_port()
        count = 1 if self.plan["target"] == "tf-distribute" else self.plan["processes"]
        for rank in range(count):  # they import at the same time
            self.starter(self.environment(rank, port))
        return [self.start(workspace, rank, port) for rank in range(count)]

    def starter(self, environment):
        return self.starters.of(environment) if self.plan["framework"] == "torch" else None

    def environment(self, rank, port):
        # Weights are compared bit by bit, so both programs run on the processors.
        found = dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS=str(self.plan["threads"]),
                     PYTHONHASHSEED=str(rank or 0), PYTHONDONTWRITEBYTECODE="1", MPLBACKEND="Agg")
        if rank is not None:
            count = str(self.plan["processes"])
            found.update(zip(OF_A_RANK, (str(rank), str(rank), count, count, "127.0.0.1", str(port))))
        return found

    def end(self):
        for one in self.started:
            if one.process.poll() is None:
                one.kill()


class Process:
    """One observed process. `rank` is None for the sequential program."""

    def __init__(self, plan, workspace, folder, rank, replay, environment, starter):
        self.rank = rank
        self.workspace = workspace
        name = "sequential" if rank is None else "rank%d" % rank
        self.paths = {kind: os.path.join(folder, name + "." + kind)
                      for kind in ("settings", "result", "stacks", "out", "err")}
        settings = dict(plan, folder=workspace.folder, current=workspace.current, seed=1000 * (rank or 0),
                        script=os.path.join(workspace.program, plan["script"]),
                        replay=list(replay), result=self.paths["result"], stacks=self.paths["stacks"],
                        world=1 if rank is None else plan["processes"], threads=plan["threads"])
        with open(self.paths["settings"], "w") as file:
            json.dump(settings, file)
        with open(self.paths["out"], "wb") as out, open(self.paths["err"], "wb") as err:
            if starter is not None and starter.can_fork():
                self.process = Forked(starter, dict(self.paths, environment=environment))
            else:
                self.process = subprocess.Popen([sys.executable, INSIDE, self.paths["settings"]], env=environment,
                                                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        self.killed = self.waited = False

    def computing(self):
        """The seconds that the process has computed, and whether it computes now or waits for a processor; None
        where the system does not tell."""
        try:
            with open("/proc/%d/stat" % self.process.pid) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return None
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"

    def stop_waiting(self):
        """Lets the process say where it waits, and ends it."""
        self.waited = True
        try:
            os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(0.5)
        except ProcessLookupError:
            pass
        self.kill()

    def kill(self):
        self.killed = True
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()

    def data(self):
        """What the process recorded; None if it did not come to its end."""
        try:
            with open(self.paths["result"], "rb") as file:
                return pickle.load(file)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None

    def waits_at(self):
        """The place where the process was when its time was over."""
        with open(self.paths["stacks"]) as file:
            for path, line in re.findall(r'File "(.*)", line (\d+) in', file.read()):
                if path.startswith(self.workspace.folder + os.sep):
                    return os.path.relpath(path, self.workspace.folder), int(line)
        return None

    def last_error(self):
        with open(self.paths["err"], errors="replace") as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
        return lines[-1][:300] if lines else "nothing was printed"


class Idleness:
    """Notices that no process computes any more, also on a crowded machine, where those that would compute wait
    for a processor."""

    def __init__(self):
        self.begin(0.0)

    def begin(self, computed):
        self.since, self.computed, self.looks, self.ready = time.time(), computed, 0, 0

    def is_over(self, processes):
        found = [one.computing() for one in processes if one.process.poll() is None]
        if None in found:
            return False
        seconds = sum(one[0] for one in found)
        self.looks += 1
        self.ready += any(one[1] for one in found)
        if seconds - self.computed > 0.02 * IDLE or seconds < self.computed:
            self.begin(seconds)
        if time.time() - self.since <= IDLE:
            return False
        if self.ready > 0.1 * self.looks:
            self.begin(seconds)
        return self.looks > 0


def wait(processes, seconds):
    """Waits until all have ended. Ends them after the deadline, if they wait for each other, and soon after
    one has failed."""
    end = time.time() + seconds
    idleness = Idleness()
    while any(one.process.poll() is None for one in processes):
        if any(one.process.poll() not in (None, 0) for one in processes):
            end = min(end, time.time() + GRACE)
        if time.time() > end or idleness.is_over(processes):
            break
        time.sleep(0.02)
    failed = any(one.process.poll() not in (None, 0) for one in processes)
    for one in processes:
        if one.process.poll() is None:
            one.kill() if failed else one.stop_waiting()
