#!/usr/bin/env python3
"""Weaves each script of the corpus and compares the result with `telar weave --verify`, over whole epochs.

    check_verified.py TELAR SCRIPT.py...

A script in a folder of `projects/` runs the project of that folder. Each script is woven for DDP, and for
Horovod (on a stand-in of its API), unless a comment says `# not for horovod: reason`; then weave must refuse
it. The checks of every woven text follow (woven.py).
"""
import os
import subprocess
import sys
import tempfile

from woven import is_project, name_of, options_of, text_complaints, weave

HERE = os.path.dirname(os.path.abspath(__file__))


def verify(asked, script, folder):
    """Runs --verify in the empty folder. Returns the completed process."""
    paths = [HERE + "/stand_ins"] + [one for one in [os.environ.get("PYTHONPATH")] if one]
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"],
                       PYTHONPATH=":".join(paths))
    project = ["--project", os.path.dirname(script)] if is_project(script) else []
    return subprocess.run(asked + ["--verify", "--steps", "1000", "--deadline", "120"] + project + [script],
                          cwd=folder, env=environment, capture_output=True, text=True)


def check(telar, script, target, folder):
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
    answer = verify(asked, script, here)
    if "has not ended and waits" in answer.stdout:
        # On a crowded machine a process of PyTorch 1.13 sometimes waits for ever in gloo. A
        # fault of the woven script does so again.
        print("again  %s for %s: a process did not end" % (name_of(script), target), flush=True)
        answer = verify(asked, script, here)
    complaints = ["--verify: exit code %d\n%s%s" % (answer.returncode, answer.stdout, answer.stderr[-1000:])
                  ] if answer.returncode != 0 else []
    if os.listdir(here):
        complaints.append("--verify leaves %s" % os.listdir(here))
    return complaints + text_complaints(telar, asked, script, woven, folder)


def main():
    telar, scripts = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = 0
    for script in map(os.path.abspath, scripts):
        for target in ("ddp", "horovod"):
            with tempfile.TemporaryDirectory() as folder:
                complaints = check(telar, script, target, folder)
            print("%-6s %s for %s" % ("FAILED" if complaints else "ok", name_of(script), target), flush=True)
            for complaint in complaints:
                print("       " + complaint, flush=True)
            failed += bool(complaints)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
