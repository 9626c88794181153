#!/usr/bin/env python3
"""Weaves each script of the corpus and compares the result with `telar weave --verify`, over whole epochs.

    check_verified.py [--part K/N] TELAR SCRIPT.py...

With --part: each N-th script, from the K-th on. A script in a folder of `projects/` runs the project of that
folder. Each script of PyTorch is woven for DDP, and for Horovod (on a stand-in of its API), unless a comment says
`# not for horovod: reason`; then weave must refuse it. Each script of Keras (in keras/) is woven for Horovod, again
on a stand-in, and for tf.distribute, unless golden/ says that it is refused; run it with the python of an
environment that has TensorFlow. Comments name the Keras that a script needs, why it is not run, and why it may print
something else (check_keras.py). The checks of every woven text follow (woven.py).

Scripts of PyTorch share the processes that have imported it (verifier.py). Those of ANEW, and all of Keras, are
verified by the command line alone, in processes that are started anew: a thread keeps the harness from forking any.
"""
import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile

from verifier import Verifier
from woven import golden, is_project, name_of, options_of, text_complaints, weave

HERE = os.path.dirname(os.path.abspath(__file__))
# Where what a process inherits could matter: its start and main module, workers, streams, the order of sets, files
# and archives, options, projects, closures, stand-ins of modules.
ANEW = ("multiprocessing_start.py", "guard_import.py", "seed_workers.py", "stream.py", "vocabulary_of_set.py",
        "download_urlretrieve.py", "warm_up.py", "package", "lbfgs.py", "lambda_download.py")


def verify(asked, script, folder, verifier):
    """Runs --verify in the empty folder. Returns the completed process."""
    project = ["--project", os.path.dirname(script)] if is_project(script) else []
    command = asked + ["--verify", "--steps", "1000", "--deadline", "120"] + project + [script]
    if not is_keras(script) and name_of(script) not in ANEW:
        return verifier.run(command, folder)
    return subprocess.run(command, cwd=folder, env=dict(os.environ, TELAR_STAND_INS_THREAD="1"), capture_output=True,
                          text=True)


def is_keras(script):
    return script.startswith(HERE + "/keras/")


def why_not_run(script, source, target):
    """Why a script of Keras is not run for a target; empty if it is."""
    if not is_keras(script):
        return ""
    if target == "tf-distribute" and os.path.exists(golden(script, target, ".refused")):
        return "weave refuses it"
    options = " ".join(options_of(source))
    if target == "tf-distribute" and ("divide" in options or "--warmup" in options):
        return "its options are for Horovod"
    version = int(importlib.metadata.version("keras").split(".")[0])
    name = target.replace("-", ".")  # tf.distribute
    found = re.search(r"^# (text only: .*|not verified for %s: .*|keras %d(?: for %s)?: .*)" % (
        name, 2 if version >= 3 else 3, name), source, re.M)
    return found[1] if found else ""


def check(telar, script, target, folder, verifier):
    """The complaints about one script."""
    with open(script) as file:
        source = file.read()
    asked = [telar, "weave", "--target", target] + options_of(source)
    answer, woven = weave(asked, script, folder)
    if target == "horovod" and "# not for horovod:" in source:
        code = answer.returncode
        return [] if code == 3 else ["weave does not refuse it: exit code %d" % code]
    if answer.returncode != 0:
        return ["telar weave: %d: %s" % (answer.returncode, answer.stderr.strip())]
    here = os.path.join(folder, "here")
    os.mkdir(here)
    answer = verify(asked, script, here, verifier)
    is_other = is_keras(script) and re.search(r"^# other output: ", source, re.M) is not None
    as_expected = answer.returncode == 0 or (is_other and answer.stdout.rstrip().splitlines()[-1].startswith(
        "the woven script is WRONG: printed ("))
    complaints = [] if as_expected else ["--verify: exit code %d\n%s%s" % (
        answer.returncode, answer.stdout, answer.stderr[-1000:])]
    if os.listdir(here):
        complaints.append("--verify leaves %s" % os.listdir(here))
    return complaints + text_complaints(telar, asked, script, woven, folder)


def targets_of(script):
    return ("horovod", "tf-distribute") if is_keras(script) else ("ddp", "horovod")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--part", default="1/1")
    options.add_argument("telar", type=os.path.abspath)
    options.add_argument("scripts", nargs="+", type=os.path.abspath)
    given = options.parse_args()
    part, parts = map(int, given.part.split("/"))
    scripts = given.scripts[part - 1::parts]
    paths = [HERE + "/stand_ins"] + [one for one in [os.environ.get("PYTHONPATH")] if one]
    os.environ.update(PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"], PYTHONPATH=":".join(paths))
    failed = count = 0
    pairs = [(script, target) for script in scripts for target in targets_of(script)]
    with Verifier() as verifier:
        for script, target in pairs:
            with open(script) as file:
                reason = why_not_run(script, file.read(), target)
            if reason:
                print("not run %s for %s: %s" % (name_of(script), target, reason), flush=True)
                continue
            count += 1
            with tempfile.TemporaryDirectory() as folder:
                complaints = check(given.telar, script, target, folder, verifier)
            print("%-6s %s for %s" % ("FAILED" if complaints else "ok", name_of(script), target), flush=True)
            for complaint in complaints:
                print("       " + complaint, flush=True)
            failed += bool(complaints)
    print("%d of %d scripts passed" % (count - failed, count))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
