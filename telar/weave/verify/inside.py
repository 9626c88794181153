"""Runs a script in one process under observation: inside.py SETTINGS.json. Part of `telar weave --verify`."""
import atexit
import faulthandler
import json
import os
import pickle
import random
import runpy
import signal
import sys
import threading
import traceback


def observe(record, settings):
    import torch

    from telar_verify import data, files, noise, training

    draws = noise.Draws(record)
    noise.without_dropout(record)
    noise.without_batch_statistics(record)
    training.without_compilation(record)
    steps = training.watch_steps(record, draws)
    training.watch_backward(record)
    training.watch_clipping(record)
    training.watch_wrappers(record)
    data.watch_loaders(record, draws)
    files.watch_logging(record)
    files.steady_clock(record)
    if settings["target"] == "horovod" and settings["world"] > 1:
        from telar_verify import horovod

        horovod.install(steps)
    torch.set_num_threads(settings["threads"])
    return steps


def seed(number):
    """Processes are seeded by the system, each in its own way; here repeatably."""
    import torch

    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def load_replay(paths):
    replay = []
    for path in paths:
        with open(path, "rb") as file:
            data = pickle.load(file)
        data["passes"] = {(one["loader"], one["number"]): one for one in data["passes"]}
        data["steps"] = {(one["optimizer"], one["step"]): one for one in data["steps"]}
        replay.append(data)
    return replay


def run(settings, record):
    """Runs the script; returns the exit code and the reason of a failure."""
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
        return 1, text.splitlines()[0][:300] + where


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
    steps = observe(record, settings)
    import torch

    os.chdir(settings["current"])
    sys.argv = [settings["script"]] + settings["arguments"]
    sys.path[0] = os.path.dirname(settings["script"])
    seed(settings["seed"])
    result = open(settings["result"], "wb")
    sys.stdout = files.Printed(record, sys.__stdout__, steps.note_rates)
    watch = files.Files(record)
    watch.watch_saves(torch)
    code, reason = run(settings, record)
    if code == 0:
        atexit._run_exitfuncs()
    sys.stdout.flush()
    watch.quiet = True
    sys.stdout = sys.__stdout__
    data = record.data()
    data["reason"] = reason
    with result:
        pickle.dump(data, result, protocol=4)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own end would wait for threads of gloo that may never answer (docs/weave.md).
    os._exit(code)


if __name__ == "__main__":
    main()
