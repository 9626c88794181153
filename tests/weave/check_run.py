#!/usr/bin/env python3
"""Starts a script and a project with `telar weave --run`, which runs two processes with PyTorch's launcher.

    check_run.py TELAR

Both must succeed and print only the output of rank 0. Weave must leave no files behind.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(telar, folder, arguments):
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"],
                       OMP_NUM_THREADS="1", TMPDIR=folder + "/tmp")
    os.makedirs(folder + "/tmp", exist_ok=True)
    command = [telar, "weave", "--run", "-n", "2"] + arguments
    for attempt in (1, 2):
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        # Processes of PyTorch 1.13 sometimes abort when they exit, after their work is done.
        if "terminate called without an active exception" not in answer.stderr:
            break
        print("PyTorch aborted at the end of attempt %d" % attempt)
    complaints = []
    if answer.returncode != 0:
        complaints.append("exit code %d: %s" % (answer.returncode, answer.stderr[-2000:]))
    left = [name for name in os.listdir(folder + "/tmp") if name.startswith("telar")]
    if left:
        complaints.append("leaves %s" % left)
    return answer.stdout, complaints


def main():
    telar = os.path.abspath(sys.argv[1])
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE + "/corpus/mlp_basic.py", folder + "/train.py")
        out, wrong = run(telar, folder, ["train.py"])
        complaints += wrong
        if len(out.splitlines()) != 9:
            complaints.append("the script's four epochs print %r" % out)
        left = sorted(os.listdir(folder))
        if [name for name in left if "woven" in name]:
            complaints.append("leaves %s" % left)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE + "/corpus/projects/package", folder + "/project",
                        ignore=shutil.ignore_patterns("__pycache__"))
        out, wrong = run(telar, folder, ["--project", "project", "train.py", "--", "--epochs", "2"])
        complaints += wrong
        if len(out.splitlines()) != 2 or not os.path.exists(folder + "/best.pt"):
            complaints.append("the project's two epochs print %r and write %s" % (
                out, sorted(os.listdir(folder))))
    for complaint in complaints:
        print("FAILED " + complaint)
    sys.exit(len(complaints) > 0)


if __name__ == "__main__":
    main()
