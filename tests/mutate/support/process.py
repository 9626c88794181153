"""Runs a program within limits of time and memory."""
import resource
import signal
import subprocess
from dataclasses import dataclass


@dataclass
class Outcome:
    command: list
    code: int  # the exit code; minus the signal that ended the process; None: it exceeded its time
    out: str
    err: str

    def failure(self, codes=(0, 1, 2, 3)):
        """What is wrong with how the process ended, as a sentence; None if it ended with one of CODES."""
        last = self.err.strip().splitlines()[-1:] or [""]
        if self.code is None:
            return "%s hangs" % " ".join(self.command)
        if self.code < 0:
            return "%s was ended by %s: %s" % (" ".join(self.command), signal.Signals(-self.code).name, last[0])
        if self.code not in codes:
            return "%s returned %d: %s" % (" ".join(self.command), self.code, last[0])
        return None


def run(command, seconds=20, memory_mb=4096, folder=None, environment=None):
    """Runs COMMAND in FOLDER. The limit of time is one of the clock; three times that on a busy machine."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=3 * seconds,
                              preexec_fn=limit, cwd=folder, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(command, None, "", "")
    code = None if -done.returncode in (signal.SIGXCPU, signal.SIGKILL) else done.returncode
    return Outcome(command, code, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
