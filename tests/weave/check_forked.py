#!/usr/bin/env python3
"""Checks that a process that `telar weave --verify` forks is like one that is started anew, and when it forks none."""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "../../telar/weave/verify"))
from telar_verify.processes import Process, Processes, wait  # noqa: E402
from telar_verify.starters import Starter, Starters  # noqa: E402
from telar_verify.workspace import Workspace  # noqa: E402

SCRIPT = """import atexit, gc, multiprocessing, os, random, signal, sys, threading
import numpy, torch

def files():
    paths = ["/proc/self/fd/%d" % one for one in range(100)]
    return [(one, os.readlink(one)) for one in paths if os.path.lexists(one)]

print("environment", dict(os.environ))
print("started as", sys.argv, sys.path, sys.flags, __name__, __file__, sys.modules["__main__"].__dict__ is globals())
print("modules", sorted(sys.modules))
print("folder", os.getcwd(), "umask", os.umask(0o22))
print("files", files(), sys.stdin.read() == "", sys.stdout.encoding, sys.stderr.line_buffering)
print("hash", hash("telar"), list({"a", "b", "c", "d"}))
print("session", os.getsid(0) == os.getpgid(0) == os.getpid(), os.nice(0), sorted(os.sched_getaffinity(0)))
print("signals", [signal.getsignal(one) for one in signal.valid_signals()], signal.pthread_sigmask(0, ()))
print("threads", [one.name for one in threading.enumerate()], threading.current_thread() is threading.main_thread(),
      len(os.listdir("/proc/self/task")), torch.get_num_threads(), torch.get_num_interop_threads())
print("processes", multiprocessing.current_process(), multiprocessing.get_start_method(),
      multiprocessing.parent_process())
print("random", random.random(), numpy.random.rand(), torch.rand(1), torch.initial_seed(),
      numpy.random.default_rng().random())
print("computed", torch.ones(300, 300).matmul(torch.ones(300, 300)).sum(), torch.is_grad_enabled(),
      torch.get_default_dtype())
print("at exit", atexit._ncallbacks(), gc.isenabled())
"""
# Without the barrier, so that gloo still works when the model ends.
PENDING = """import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2)).sum().backward()
for _ in range(50):
    dist.all_reduce(torch.ones(1000000), async_op=True)
dist.destroy_process_group()
del model
"""
PLAN = {"script": "train.py", "arguments": ["--epochs", "2"], "target": "ddp", "framework": "torch", "processes": 2,
        "threads": 1, "steps": 5, "limit_samples": 0, "fake_data": False}


def printed(processes, rank, starter):
    """The lines that the script prints, and what the process recorded of them."""
    space = Workspace(tempfile.mkdtemp(dir=processes.folder), processes.plan["current"], processes.plan["base"])
    one = Process(processes.plan, space, processes.folder, rank, (), processes.environment(rank, 1), starter)
    processes.started.append(one)
    wait([one], 60)
    with open(one.paths["out"]) as out, open(one.paths["err"]) as err:
        lines = (out.read() + err.read()).replace(space.folder, "SPACE").splitlines()
    return lines + ["ends with %d, recorded: %s" % (one.process.returncode, one.data() is not None)]


def is_like_a_new_one(folder):
    os.mkdir(folder + "/user")
    os.mkdir(folder + "/work")
    with open(folder + "/user/train.py", "w") as file:
        file.write(SCRIPT)
    starters = Starters()
    processes = Processes(dict(PLAN, base=folder + "/user", current=folder + "/user"), folder + "/work", starters)
    complaints = []
    for rank in (None, 0, 1):
        starter = starters.of(processes.environment(rank, 1))
        if not starter.can_fork():
            return ["this PyTorch cannot be forked"]
        pair = [printed(processes, rank, one) for one in (None, starter)]
        complaints += ["%s\n  in a new process: %s" % (forked, new) for new, forked in zip(*pair) if new != forked]
        if len(pair[0]) != len(pair[1]) or pair[0][-1] != "ends with 0, recorded: True":
            complaints.append("it prints %s, a new process %s" % (pair[1], pair[0]))
    if len(starters.by_environment) != 2:
        complaints.append("%d starters: not one for each hash seed" % len(starters.by_environment))
    starters.end()
    return complaints


def has_no_threads_to_lose(folder):
    """A process that has a thread, here by stand_ins/sitecustomize.py, is not forked."""
    starter = Starter(dict(os.environ, PYTHONPATH=HERE + "/stand_ins", TELAR_STAND_INS_THREAD="1"))
    can = starter.can_fork()
    starter.end()
    return ["it is forked"] if can else []


def ends_with_its_group(folder):
    """Threads of gloo that still drop tensors when a wrapped model ends do not keep the process from ending."""
    os.mkdir(folder + "/user")
    os.mkdir(folder + "/work")
    with open(folder + "/user/train.py", "w") as file:
        file.write(PENDING)
    starters = Starters()
    plan = dict(PLAN, base=folder + "/user", current=folder + "/user")
    processes = Processes(plan, folder + "/work", starters)
    ranks = processes.start_ranks(Workspace(tempfile.mkdtemp(dir=folder), plan["current"], plan["base"]))
    wait(ranks, 60)
    processes.end()
    starters.end()
    return ["rank %d has not ended by itself: %s" % (one.rank, one.last_error()) for one in ranks
            if one.waited or one.killed or one.process.returncode != 0]


def main():
    failed = 0
    for check in (is_like_a_new_one, has_no_threads_to_lose, ends_with_its_group):
        with tempfile.TemporaryDirectory() as folder:
            complaints = check(folder)
        print("%-6s %s" % ("FAILED" if complaints else "ok", check.__name__.replace("_", " ")), flush=True)
        for complaint in complaints:
            print("       " + complaint, flush=True)
        failed += bool(complaints)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
