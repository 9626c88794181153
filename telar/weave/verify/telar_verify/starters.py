"""Processes that have imported PyTorch, which is most of a short run, and fork others.

There is one for each environment, and so for each hash seed.
"""
import json
import os
import socket
import subprocess
import sys
import time

INSIDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inside.py")
OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Starter:
    """A process that has imported PyTorch and forks others (inside.py). `environment`: that of the forked processes,
    but for OF_A_RANK, which is not read before the script runs."""

    def __init__(self, environment):
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, INSIDE, "--fork", str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.lines = self.channel.makefile("rw")
        self.usable = None
        self.asked = 0

    def can_fork(self):
        """Whether its forks are like new processes."""
        if self.usable is None:
            self.usable = self.lines.readline() == "true\n"
        return self.usable

    def ask(self, request):
        self.asked += 1
        self.lines.write(json.dumps([self.asked, request]) + "\n")
        self.lines.flush()
        number, answer = 0, None
        while number != self.asked:  # an earlier answer was not read, if Ctrl-C interrupted that request
            number, answer = json.loads(self.lines.readline())
        return answer

    def end(self):
        self.process.kill()
        self.process.wait()
        self.lines.close()
        self.channel.close()


class Forked:
    """A process that a starter has forked, with what is used here of subprocess.Popen."""

    def __init__(self, starter, request):
        self.starter, self.returncode = starter, None
        self.pid = starter.ask(request)

    def poll(self):
        if self.returncode is None:
            self.returncode = self.starter.ask({"poll": self.pid})
        return self.returncode

    def wait(self):
        while self.poll() is None:
            time.sleep(0.01)


class Starters:
    """One starter for each environment; they stay for the next verification."""

    def __init__(self):
        self.by_environment = {}

    def of(self, environment):
        common = {name: value for name, value in environment.items() if name not in OF_A_RANK}
        key = tuple(sorted(common.items()))
        if key not in self.by_environment:
            self.by_environment[key] = Starter(common)
        return self.by_environment[key]

    def end(self):
        for one in self.by_environment.values():
            one.end()
