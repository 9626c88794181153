"""Rehearses the folder of scripts/gpu-folder --stand-ins where no GPU is: every stage ends and reports, and faults are named.

    python3 check_folder.py FOLDER
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../../.."
PEERS = (os.path.join(ROOT, "scripts/install-peers"), "--run")
PRODUCTS = "*EqualsPyTorchInF32/linear*:*EqualsPyTorchInF32/softmax*"


class Rehearsal:

    def __init__(self, folder):
        self.folder, self.made = folder, tempfile.mkdtemp(prefix="telar-gpu-folder-")

    def check(self, *arguments, python=(), **environment):
        """The stages of a run by name, and the seconds it took. `python`: what runs it, instead of the system's Python."""
        out = os.path.join(self.made, f"results-{len(os.listdir(self.made))}")
        start = time.monotonic()
        run = subprocess.run([*python, os.path.join(self.folder, "check"), "--out", out, *arguments], text=True, capture_output=True, timeout=170,
                             env={**os.environ, **environment}, check=False)
        if python and run.returncode == 77:
            return None, 0
        with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
            stages = {stage["stage"]: stage for stage in json.load(file)["stages"]}
        files = sorted(os.listdir(out))
        expect(files == ["log.txt", "results.json", "results.md"], f"the results are {files}")
        expect(run.returncode == (1 if any(stage["failures"] for stage in stages.values()) else 0), f"exit {run.returncode}: {run.stderr}")
        return stages, time.monotonic() - start


def expect(right, sentence):
    if not right:
        sys.exit(f"check_folder: {sentence}")


def failures(stage):
    return [f"{failure['what']}: {failure['why']}" for failure in stage["failures"]]


def main():
    rehearsal = Rehearsal(sys.argv[1])
    try:
        # Everything, in a time that is too short for stand-ins: each stage ends by its own limit.
        stages, seconds = rehearsal.check("--seconds", "30", "--tests", PRODUCTS)
        expect(list(stages) == ["devices", "operations", "sessions", "sanitizer", "figures", "python", "idle"], f"the stages are {list(stages)}")
        expect(seconds < 60, f"30 seconds became {seconds:.0f}")
        for name, stage in stages.items():
            expect(stage["comparisons"] > 0 or stage["skipped"] or stage["failures"], f"{name} reports nothing")
        # Figures for which no time is left are left out, which is no failure, and named.
        left_out = [skipped["what"] for skipped in stages["figures"]["skipped"] if skipped["why"].startswith("left out")]
        expect("telar bench limits" in left_out and not stages["figures"]["failures"], f"figures left out {left_out}, wrong: {failures(stages['figures'])}")

        stages, _ = rehearsal.check("--only", "operations", "--seconds", "60", "--tests", PRODUCTS)
        found = stages["operations"]
        right = [failure for failure in failures(found) if not failure.startswith("device: CudaDevice.ThatHasTooLittle")]
        expect(not right and found["comparisons"] > 8, f"right operations: {found['comparisons']} comparisons, {right}")

        # A wrong product, and one that never ends: each is named, and the tests beside it still run.
        stages, _ = rehearsal.check("--only", "operations", "--seconds", "60", "--tests", PRODUCTS, TELAR_FAKE_PRODUCTS="wrong")
        wrong = failures(stages["operations"])
        expect(any("linear" in failure for failure in wrong), f"a wrong product is not named: {wrong}")
        expect(stages["operations"]["comparisons"] == found["comparisons"], f"a wrong product ends {stages['operations']['comparisons']} comparisons")
        stages, _ = rehearsal.check("--only", "operations", "--seconds", "40", "--silence", "3", "--tests", PRODUCTS, TELAR_FAKE_PRODUCTS="hang")
        hanging = failures(stages["operations"])
        expect(any("linear" in failure and "says nothing for 3 s" in failure for failure in hanging), f"a product that hangs is not named: {hanging}")
        expect(any(failure.startswith("device") for failure in hanging) or stages["operations"]["comparisons"] > len(hanging),
               "nothing runs behind a product that hangs")

        # The Python package, beside PyTorch: on the stand-ins with modules on the CPU alone, which is said.
        stages, _ = rehearsal.check("--only", "python", "--seconds", "150", python=PEERS)
        if stages is None:
            print("check_folder: SKIPPED, the stage python: there is no PyTorch; scripts/install-peers installs it")
        else:
            found = stages["python"]
            expect(not found["failures"] and found["comparisons"] > 40, f"python: {found['comparisons']} comparisons, {failures(found)}")
            expect(any("without CUDA" in skipped["why"] for skipped in found["skipped"]), f"python leaves out {found['skipped']}")
            stages, _ = rehearsal.check("--only", "python", "--seconds", "150", python=PEERS, TELAR_FAKE_PRODUCTS="wrong")
            wrong = failures(stages["python"])
            expect(any(failure.startswith("Steps.test_modules") for failure in wrong), f"python does not name a wrong product: {wrong}")

        # A library that is cut off. (One that is missing is found in the system here.)
        os.truncate(os.path.join(rehearsal.folder, "unpacked/lib/telar/lib/libfmt.so.9"), 0)
        stages, _ = rehearsal.check("--only", "devices,operations", "--seconds", "20")
        for name in stages:
            expect(any("libfmt.so.9" in failure for failure in failures(stages[name])), f"{name} does not name a library that is cut off: {failures(stages[name])[:3]}")
    finally:
        shutil.rmtree(rehearsal.made)
    print("check_folder: every stage ends and reports; wrong and hanging products and a library that is cut off are named")


if __name__ == "__main__":
    main()
