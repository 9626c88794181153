#!/usr/bin/env python3
"""Weaves scripts for the target telar and compares them with `telar weave --verify`.

    check_telar.py TELAR SCRIPT.py...
    check_telar.py TELAR --faults

A script in a folder of `projects/` runs the project of that folder. With --faults, woven scripts are
edited wrong, once for each class of fault, and --verify must find it.
It needs a Python with PyTorch and the package telar (PYTHONPATH=build/release/python).
"""
import os
import subprocess
import sys
import tempfile

from check_verify import edited, read, row_of, write
from woven import is_project, name_of, options_of, text_complaints, weave

HERE = os.path.dirname(os.path.abspath(__file__))
STEP = "            loss = torch.tensor(step(inputs, labels))\n"
OUTPUTS = "            outputs = step.outputs(inputs, labels)\n            probabilities = outputs.softmax(1)\n"

# The script, what is edited in its woven form, the row of the table that must say WRONG, and words that must be said.
FAULTS = {
    "values are changed otherwise": (
        "telar/within_loop.py", [("clamp_(-0.6, 0.6)", "clamp_(-0.5, 0.5)")], "gradients", "differs from the sequential one"),
    "a step too many": ("telar/within_loop.py", [(STEP, 2 * STEP)], "gradients", "make 30 steps"),
    "another loss": (
        "corpus/mlp_basic.py", [("tt.Step(model, criterion", "tt.Step(model, lambda m, x, y: 2 * criterion(m(x), y)")],
        "gradients", "is 2 times the sequential one"),
    "the gradient is not clipped": (
        "telar/within_loop.py", [("clip_norm=limit, ", "")], "gradients", "times the sequential one"),
    "outputs after the step": ("telar/within_loop.py", [(OUTPUTS + STEP, STEP + OUTPUTS)], "printed", "hits"),
}


def run(telar, arguments, folder):
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
    return subprocess.run([telar, "weave", "--target", "telar"] + arguments, cwd=folder, env=environment,
                          capture_output=True, text=True)


def check(telar, script, folder):
    """The complaints about one script."""
    options = options_of(read(script))
    asked = [telar, "weave", "--target", "telar"] + options
    answer, woven = weave(asked, script, folder)
    if answer.returncode != 0:
        return ["telar weave: %d: %s" % (answer.returncode, answer.stderr.strip())]
    here = os.path.join(folder, "here")
    os.mkdir(here)
    project = ["--project", os.path.dirname(script)] if is_project(script) else []
    answer = run(telar, options + ["--verify"] + project + [script], here)
    complaints = [] if answer.returncode == 0 else ["--verify: exit code %d\n%s%s" % (
        answer.returncode, answer.stdout, answer.stderr[-1000:])]
    return complaints + text_complaints(telar, asked, script, woven, folder)


def check_fault(telar, folder, fault):
    script, edits, row, says = fault
    write(folder + "/train.py", read(os.path.join(HERE, script)))
    write(folder + "/woven.py", edited(run(telar, ["train.py"], folder).stdout, edits))
    answer = run(telar, ["--verify", "train.py", "--woven", "woven.py"], folder)
    found = row_of(answer.stdout, row)
    if answer.returncode != 1 or "WRONG" not in found or says not in found:
        return ["exit code %d, in the row %r: %r; %s" % (answer.returncode, row, found, answer.stderr[-500:])]
    return []


def main():
    try:
        import torch  # noqa: F401: whether it is there
    except ModuleNotFoundError as error:
        print("check_telar: SKIPPED, %s; scripts/install-peers installs PyTorch" % error)
        sys.exit(77)
    telar, given = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if given == ["--faults"]:
        checks = [(name, lambda folder, one=one: check_fault(telar, folder, one)) for name, one in FAULTS.items()]
    else:
        checks = [(name_of(one), lambda folder, one=one: check(telar, os.path.abspath(one), folder)) for one in given]
    failed = 0
    for name, work in checks:
        with tempfile.TemporaryDirectory() as folder:
            complaints = work(folder)
        print("%-6s %s" % ("FAILED" if complaints else "ok", name), flush=True)
        for complaint in complaints:
            print("       " + complaint, flush=True)
        failed += bool(complaints)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
