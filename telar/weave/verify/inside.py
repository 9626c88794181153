"""Runs a script in one process under observation: inside.py SETTINGS.json. Part of `telar weave --verify`."""
import atexit
import faulthandler
import itertools
import json
import os
import pickle
import runpy
import signal
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


def main():
    with open(sys.argv[1]) as file:
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
