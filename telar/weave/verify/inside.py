"""Runs a script in one process under observation. Part of `telar weave --verify`.

    inside.py SETTINGS.json
    inside.py --fork DESCRIPTOR     imports PyTorch, then forks a process for each request on the socket
"""
import atexit
import faulthandler
import itertools
import json
import os
import pickle
import runpy
import signal
import socket
import sys
import threading
import traceback


def observe(record, settings):
    if settings["framework"] == "torch":
        from telar_verify.on_torch import Observer
    else:
        from telar_verify.on_tensorflow import Observer
    from telar_verify import files

    observer = Observer(settings, record)
    files.watch_logging(record)
    files.steady_clock(record)
    return observer


def seed_generators(number, folder):
    """Generators that the script creates without a seed are repeatable, too: the n-th of a process has the n-th seed."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    create, numbers = numpy.random.default_rng, itertools.count(number)

    def default_rng(seed=None):
        own = seed is None and sys._getframe(1).f_code.co_filename.startswith(folder + os.sep)
        return create(next(numbers) if own else seed)

    numpy.random.default_rng = default_rng


def load_replay(sources):
    """What the ranks have recorded. `sources`: a file of results and the number of the rank in it, for each."""
    replay = []
    for path, number in sources:
        with open(path, "rb") as file:
            data = pickle.load(file)["ranks"][number]
        data["passes"] = {(one["loader"], one["number"]): one for one in data["passes"]}
        data["steps"] = {(one["optimizer"], one["step"]): one for one in data["steps"]}
        replay.append(data)
    return replay


def run(settings, record):
    """Runs the script; returns the exit code and the reason of a failure."""
    from telar_verify import fakes
    from telar_verify.record import End, Refused

    try:
        runpy.run_path(settings["script"], run_name="__main__")
        threading._shutdown()
        return 0, ""
    except End:
        return 0, ""
    except SystemExit as end:
        return (0, "") if end.code in (None, 0) else (1, "the script ends with exit code %s" % end.code)
    except Refused as refused:
        return 1, str(refused)
    except BaseException as error:
        traceback.print_exc()
        places = [(os.path.relpath(frame.filename, record.folder), frame.lineno)
                  for frame in traceback.extract_tb(error.__traceback__)
                  if frame.filename.startswith(record.folder + os.sep)]
        where = " at line %d of %s" % (places[-1][1], places[-1][0]) if places else ""
        text = traceback.format_exception_only(type(error), error)[-1].strip()
        written = [path for path, _ in record.writes]
        return 1, text.splitlines()[0][:300] + where + fakes.advice(error, text, settings["fake_data"], written)


def can_fork():
    """Imports what the forked processes import first. False if it fails, or starts threads, which forks would lack."""
    try:
        from telar_verify import fakes, files, on_torch, record  # noqa: F401

        pid = os.fork()  # at which libraries that support forks, as OpenBLAS, end their threads
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return len(os.listdir("/proc/self/task")) == 1
    except Exception:
        return False


def forked(channel):
    """Answers requests until there are no more. Returns only in a forked process, with the path of its settings."""
    lines, codes = channel.makefile("rw"), {}
    answer = can_fork()
    while True:
        lines.write(json.dumps(answer) + "\n")
        lines.flush()
        line = lines.readline()
        if not line:
            os._exit(0)
        number, request = json.loads(line)
        if "poll" in request:
            answer = [number, code_of(request["poll"], codes)]
            continue
        pid = os.fork()
        if pid == 0:
            lines.close()
            become_new(request)
            return request["settings"]
        codes[pid] = None
        answer = [number, pid]


def code_of(pid, codes):
    """The exit code of a forked process; None if it has not ended."""
    if codes[pid] is None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        codes[pid] = os.waitstatus_to_exitcode(status) if ended else None
    return codes[pid]


def become_new(request):
    """The session, environment and output of a process that is started anew."""
    os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    for descriptor, kind in ((1, "out"), (2, "err")):
        file = os.open(request[kind], os.O_WRONLY)
        os.dup2(file, descriptor)
        os.close(file)


def main():
    path = sys.argv[1]
    if path == "--fork":
        with socket.socket(fileno=int(sys.argv[2])) as channel:
            path = forked(channel)
    with open(path) as file:
        settings = json.load(file)
    stacks = open(settings["stacks"], "w")
    faulthandler.register(signal.SIGUSR1, file=stacks)
    from telar_verify import files
    from telar_verify.record import Record

    record = Record(settings["folder"], settings)
    if settings["replay"]:
        record.replay = load_replay(settings["replay"])
    observer = observe(record, settings)
    os.chdir(settings["current"])
    sys.argv = [settings["script"]] + settings["arguments"]
    sys.path[0] = os.path.dirname(settings["script"])
    observer.seed(settings["seed"])
    seed_generators(settings["seed"], settings["folder"])
    result = open(settings["result"], "wb")
    sys.stdout = files.Printed(record, sys.__stdout__, observer.before_print)
    watch = files.Files(record)
    observer.watch_saves(watch)
    code, reason = run(settings, record)
    if code == 0:
        atexit._run_exitfuncs()
    sys.stdout.flush()
    watch.quiet = True
    sys.stdout = sys.__stdout__
    with result:
        pickle.dump({"reason": reason, "ranks": observer.ranks()}, result, protocol=4)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own end would wait for threads of gloo that may never answer (docs/weave.md).
    os._exit(code)


if __name__ == "__main__":
    main()
