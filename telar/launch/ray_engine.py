"""The part of `telar launch --on ray` that speaks with Ray (telar/launch/ray_engine.cpp). Runs each process under an actor
of its own on the node that is asked for. No actor is restarted by Ray: telar launch decides what takes its place.

    python ray_engine.py ADDRESS CPUS FOLDER        ADDRESS: of the cluster; auto: the one of this machine
                                                    CPUS: of each place; 0: a node is one place

Reads requests from its standard input, a JSON object in each line:

    {"call": "slots"}
    {"call": "start", "process": N, "node": ID, "trains": true, "words": [...], "environment": {...}}
    {"call": "stop", "process": N, "at_once": false}

and writes to its standard output in the same way:

    {"slots": [{"host": NAME, "address": IP, "node": ID}, ...]}     in answer to slots; at first, unasked
    {"refused": SENTENCE}                                           instead: it cannot go on
    {"process": N, "line": TEXT}                                    of its standard output
    {"process": N, "code": N, "host_lost": false}                   it has ended

What processes write to their standard error, it writes to its own. When its standard input ends, it asks all processes to
end, and waits for them.
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # a folder `ray` in the current one is not Ray

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
import traceback

KILLED = 137
WRONG = 2
ERRORS = sys.stderr
LOOK = 0.02  # seconds
PATIENCE = 30  # seconds: until a user hears that a process has not begun
LASTS = 310  # seconds: processes that are asked to end take 5 minutes for a checkpoint at most


def is_up(node):
    """Ray notices the loss of a node after some 10 s."""
    try:
        socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), 2).close()
    except OSError:
        return False
    return node["Alive"]


def say(line):
    print(line, file=ERRORS, flush=True)


class Process:
    """An actor: a process, whose standard input ends when the actor does."""

    def __init__(self, words, environment, folder):
        self.events = queue.Queue()
        self.events.put(("begun", None))
        self.child = None
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}  # which Ray sets
        try:
            # Ray kills the children of an actor that has ended. The child of the shell can still save a checkpoint.
            self.child = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "sh", *words], cwd=folder, env={**own, **environment},
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            self.events.put(("error", f"error: {folder}: {error.strerror}"))
            self.events.put(("code", WRONG))
            return
        readers = [threading.Thread(target=self.read, args=stream)
                   for stream in ((self.child.stdout, "line"), (self.child.stderr, "error"))]
        for reader in readers:
            reader.start()
        threading.Thread(target=self.wait, args=(readers,)).start()

    def read(self, stream, kind):
        for line in stream:
            self.events.put((kind, line.decode(errors="replace").rstrip("\n")))

    def wait(self, readers):
        for reader in readers:
            reader.join()
        code = self.child.wait()
        self.events.put(("code", 128 - code if code < 0 else code))

    def next(self):
        """What has happened since the last call. Waits for something."""
        events = [self.events.get()]
        while not self.events.empty():
            events.append(self.events.get())
        return events

    def stop(self, at_once):
        if self.child is None:
            return
        self.child.stdin.close()
        if at_once and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)


class Engine:
    def __init__(self, ray, cpus, folder, answer):
        self.ray = ray
        self.cpus = cpus
        self.folder = folder
        self.answer = answer
        self.names = {}   # by node
        self.actors = {}  # of processes that have not ended, with their nodes
        self.waits = {}   # their next events, with their numbers
        self.begin = {}   # those that have not begun, with when this is said

    def nodes(self):
        """Those that are up, this one first."""
        own = self.ray.get_runtime_context().get_node_id()
        nodes = [node for node in self.ray.nodes() if node["Resources"].get("CPU", 0) >= max(1, self.cpus) and is_up(node)]
        return sorted(nodes, key=lambda node: (node["NodeID"] != own, node["NodeManagerHostname"], node["NodeID"]))

    def name(self, node):
        """That of its host, or for a further node of the host its own. It stays the same."""
        number, name = node["NodeID"], node["NodeManagerHostname"]
        if number not in self.names:
            self.names[number] = f"{name}-{number[:6]}" if name in self.names.values() else name
        return self.names[number]

    def slots(self):
        slots = []
        for node in self.nodes():
            slot = {"host": self.name(node), "address": node["NodeManagerAddress"], "node": node["NodeID"]}
            slots += [slot] * (int(node["Resources"]["CPU"]) // self.cpus if self.cpus else 1)
        self.answer(slots=slots)

    def start(self, process, node, trains, words, environment):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        places = {entry["NodeID"]: entry["Resources"].get("CPU", 0) for entry in self.ray.nodes()}
        if self.cpus:
            environment = {"OMP_THREAD_LIMIT": str(self.cpus), **environment}
        actor = self.ray.remote(Process).options(
            num_cpus=(self.cpus or places.get(node, 0)) if trains else 0, max_restarts=0, max_concurrency=2,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(words, environment, self.folder)
        self.actors[process] = (actor, node)
        self.waits[actor.next.remote()] = process
        self.begin[process] = time.monotonic() + PATIENCE

    def stop(self, process, at_once):
        if process in self.actors:
            self.actors[process][0].stop.remote(at_once)

    def look(self):
        """Passes on what has happened. Waits a moment."""
        for process in [process for process, late in self.begin.items() if time.monotonic() > late]:
            del self.begin[process]
            say("Ray has not started a process within 30 s: are the processors of its node in use?")
        if not self.waits:
            return time.sleep(LOOK)
        ready, _ = self.ray.wait(list(self.waits), num_returns=1, timeout=LOOK)
        for wait in ready:
            process = self.waits.pop(wait)
            try:
                events = self.ray.get(wait)
            except self.ray.exceptions.RayError as error:
                events = [("error", f"Ray: {str(error).splitlines()[0]}"), ("code", KILLED)]
            self.pass_on(process, events)

    def is_lost(self, process):
        """Whether its node is."""
        node = self.actors[process][1]
        return not any(entry["NodeID"] == node and is_up(entry) for entry in self.ray.nodes())

    def pass_on(self, process, events):
        for kind, value in events:
            if kind == "begun":
                self.begin.pop(process, None)
            elif kind == "line":
                self.answer(process=process, line=value)
            elif kind == "error":
                say(value)
            else:
                self.answer(process=process, code=value, host_lost=value == KILLED and self.is_lost(process))
                self.begin.pop(process, None)
                actor, _ = self.actors.pop(process)
                self.ray.kill(actor)
                return
        self.waits[self.actors[process][0].next.remote()] = process


def read_requests(requests):
    for line in sys.stdin:
        requests.put(json.loads(line))
    requests.put(None)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Ray prints whole logs of nodes that are lost.
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")

    def answer(**fields):
        with contextlib.suppress(BrokenPipeError):  # of a telar launch that was killed
            print(json.dumps(fields), file=answers, flush=True)

    address, cpus, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    try:
        import ray
    except ImportError as error:
        return answer(refused=f"{sys.executable} has no Ray ({error}): install it there (pip install ray), or use the Python that has it (telar launch: --python)")
    try:
        if address != "auto" and "://" not in address:  # Ray would wait for it for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), 10).close()
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        return answer(refused=f"there is no cluster of Ray at {address}: {error}")
    requests = queue.Queue()
    threading.Thread(target=read_requests, args=(requests,), daemon=True).start()
    engine = Engine(ray, cpus, folder, answer)
    engine.slots()
    ends_at = None
    while ends_at is None or (engine.actors and time.monotonic() < ends_at):
        while not requests.empty():
            request = requests.get()
            if request is None:
                ends_at = time.monotonic() + LASTS
                for process in engine.actors:
                    engine.stop(process, False)
                break
            call = request.pop("call")
            {"slots": engine.slots, "start": engine.start, "stop": engine.stop}[call](**request)
        engine.look()


try:
    main()
except BaseException:
    traceback.print_exc(file=ERRORS)
    raise
