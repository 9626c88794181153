"""Runs `telar weave --verify` many times with processes that import PyTorch once.

The command line does everything up to the start of the harness; the harness, from the source tree, then runs in this
process. Its starters (telar/weave/verify/telar_verify/starters.py), which fork the observed processes, stay for the
next verification.
"""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "../../telar/weave/verify"))
from telar_verify.starters import Starters  # noqa: E402
from verify import verify_with  # noqa: E402


def plan_of(folder):
    with open(os.path.join(folder, "plan.json")) as file:
        plan = json.load(file)
    plan["woven"] = {path: os.path.join(folder, os.path.basename(kept)) for path, kept in plan["woven"].items()}
    return plan


class Verifier:
    """All verifications have the environment of this process."""

    def __init__(self):
        self.starters = Starters()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.starters.end()

    def run(self, command, folder):
        """What subprocess.run(command, cwd=folder, capture_output=True, text=True) returns."""
        with tempfile.TemporaryDirectory() as kept:
            environment = dict(os.environ, PATH=HERE + "/kept_plan:" + os.environ["PATH"], TELAR_KEPT_PLAN=kept)
            answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if not os.listdir(kept):
                return answer
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = verify_with(self.starters, plan_of(kept))
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
