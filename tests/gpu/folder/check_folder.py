"""Rehearses the folder of scripts/gpu-folder --stand-ins where no GPU is: every stage ends and reports, and faults are named.

    python3 check_folder.py FOLDER
"""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../../.."
PEERS = (os.path.join(ROOT, "scripts/install-peers"), "--run")
FEW = "*EqualsPyTorchInF32/linear:*EqualsPyTorchInF32/softmax_axis_0:*EqualsPyTorchInF32/relu"


class Rehearsal:

    def __init__(self, folder):
        self.folder, self.made = folder, tempfile.mkdtemp(prefix="telar-gpu-folder-")
        self.libraries = os.path.join(folder, "unpacked/lib/telar/lib")

    def check(self, *arguments, python=(), **environment):
        """The stages of a run by name, and the seconds it took. `python`: what runs it, instead of the system's Python."""
        out = tempfile.mkdtemp(dir=self.made)
        start = time.monotonic()
        run = subprocess.run([*python, os.path.join(self.folder, "check"), "--out", out, *arguments], text=True, capture_output=True, timeout=170,
                             env={**os.environ, **environment}, check=False)
        if python and run.returncode == 77:
            return None, 0
        with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
            results = json.load(file)
        stages = {stage["stage"]: stage for stage in results["stages"]}
        files = sorted(os.listdir(out))
        expect(files == ["log.txt", "results.json", "results.md"], f"the results are {files}")
        right = 3 if results["missing"] else 1 if any(stage["failures"] for stage in stages.values()) else 0
        expect(run.returncode == right, f"exit {run.returncode}: {run.stderr}")
        with open(os.path.join(out, "results.md"), encoding="utf-8") as file:
            self.said, self.table = run.stdout, file.read()
        print(f"check_folder: {time.monotonic() - start:5.1f} s: check {' '.join(arguments)} {' '.join(f'{key}={value}' for key, value in environment.items())}", flush=True)
        return stages, time.monotonic() - start


def expect(right, sentence):
    if not right:
        sys.exit(f"check_folder: {sentence}")


def failures(stage):
    return [f"{failure['what']}: {failure['why']}" for failure in stage["failures"]]


def names(stage, test, kernel, why=""):
    """Whether a failure of the stage is of that test and names that kernel of its own."""
    return any(test in failure["what"] and why in failure["why"] and any(kernel in name for name in failure.get("kernels", []))
               for failure in stage["failures"])


STAGES = ["devices", "operations", "sessions", "sanitizer", "figures", "python", "idle"]


def main():
    rehearsal = Rehearsal(sys.argv[1])
    try:
        # Everything, in a time that is too short for stand-ins: each stage ends by its own limit.
        stages, seconds = rehearsal.check("--seconds", "30", "--tests", FEW)
        expect(list(stages) == STAGES, f"the stages are {list(stages)}")
        expect(seconds < 60, f"30 seconds became {seconds:.0f}")
        for name, stage in stages.items():
            expect(stage["comparisons"] > 0 or stage["not run"] or stage["failures"], f"{name} reports nothing")
        # Figures for which no time is left are left out, which is no failure, and named, unless that is all of them.
        left_out = [skipped["what"] for skipped in stages["figures"]["skipped"] if skipped["why"].startswith("left out")]
        right = [] if stages["figures"]["comparisons"] else ["figures: compared nothing"]
        expect("telar bench limits" in left_out and failures(stages["figures"]) == right, f"figures left out {left_out}, wrong: {failures(stages['figures'])}")

        stages, _ = rehearsal.check("--only", "operations", "--seconds", "60", "--tests", FEW)
        found = stages["operations"]
        wrong = [failure for failure in failures(found) if not failure.startswith("device: CudaDevice.ThatHasTooLittle")]
        expect(not wrong and found["comparisons"] > 6, f"right operations: {found['comparisons']} comparisons, {wrong}")

        # A stage that has no time to compare anything.
        stages, _ = rehearsal.check("--only", "figures", "--seconds", "0.5")
        expect(any("compared nothing" in failure for failure in failures(stages["figures"])), f"figures that compared nothing: {stages['figures']}")

        # No GPU, as on most machines: the module is not that of the stand-ins.
        other = tempfile.mkdtemp(dir=rehearsal.made)
        shutil.copy(os.path.join(rehearsal.libraries, "libfmt.so.9"), os.path.join(other, "telar-cuda.so"))
        stages, _ = rehearsal.check(TELAR_MODULES=other, CUDA_VISIBLE_DEVICES="")
        missing = [failure for failure in failures(stages["devices"]) if failure.startswith(("GPU: no driver", "GPU: no device"))]
        expect(len(missing) == 1 and stages["devices"]["comparisons"] > 50, f"without a GPU: {failures(stages['devices'])}")
        sentence = missing[0][len("GPU: "):]
        for where, text in (("the screen", rehearsal.said.split("\n", 1)[1]), ("results.md", rehearsal.table)):
            expect(text.startswith(("NOTHING WAS COMPARED", "**NOTHING WAS COMPARED")) and sentence in text.split("\n")[0], f"{where} begins with {text[:200]}")
        for name in STAGES[1:]:
            expect(stages[name]["not run"] in ("no driver", "no device") and not failures(stages[name]), f"without a GPU {name} is {stages[name]}")
            expect(f"| {name} | 0.0 | not run: no d" in rehearsal.table, f"{name} is not in the table: {rehearsal.table[:900]}")

        # A kernel of ours and a product that are wrong, and that never end: each is named, and the tests beside them still run. While one
        # hangs, the stage python runs, beside PyTorch: on the stand-ins with modules on the CPU alone, which is said.
        def faulty(fault):
            return rehearsal.check("--only", "operations", "--seconds", "100", "--silence", "6", "--tests", FEW,
                                   TELAR_FAKE_KERNEL=f"{fault}:softmax_typed", TELAR_FAKE_PRODUCTS=fault)[0]["operations"]

        def python(**environment):
            stages, _ = rehearsal.check("--only", "python", "--seconds", "150", python=PEERS, **environment)
            return stages and stages["python"]

        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [pool.submit(call) for call in (lambda: faulty("hang"), python, lambda: python(TELAR_FAKE_PRODUCTS="wrong"))]
            hanging, right, wrong = [run.result() for run in runs]
        for fault, why, stage in (("wrong", "", faulty("wrong")), ("hang", "says nothing for 6 s", hanging)):
            expect(names(stage, "softmax_axis_0", "softmax_typed<float>", why), f"{fault}: our kernel is not named: {stage['failures']}")
            expect(names(stage, "linear", "cublasLtMatmul", why), f"{fault}: the product is not named: {stage['failures']}")
            expect(not any("relu" in failure["what"] for failure in stage["failures"]), f"{fault}: so is what is right: {stage['failures']}")
            expect(stage["comparisons"] == found["comparisons"], f"{fault}: ends after {stage['comparisons']} comparisons")
        if right is None:
            print("check_folder: SKIPPED, the stage python: there is no PyTorch; scripts/install-peers installs it")
        else:
            expect(not right["failures"] and right["comparisons"] > 40, f"python: {right['comparisons']} comparisons, {failures(right)}")
            expect(any("without CUDA" in skipped["why"] for skipped in right["skipped"]), f"python leaves out {right['skipped']}")
            expect(any(failure.startswith("Steps.test_modules") for failure in failures(wrong)), f"python does not name a wrong product: {failures(wrong)}")

        # A library that is nowhere, and one that is cut off.
        subprocess.run(["patchelf", "--add-needed", "libnowhere.so.1", os.path.join(rehearsal.libraries, "../telar-cuda.so")], check=True)
        stages, _ = rehearsal.check("--only", "devices,operations", "--seconds", "20", "--tests", FEW)
        for name, stage in stages.items():
            expect(any("telar-cuda" in failure and "libnowhere.so.1" in failure for failure in failures(stage)), f"{name} does not name a missing library: {failures(stage)[:3]}")
        os.truncate(os.path.join(rehearsal.libraries, "libfmt.so.9"), 0)
        stages, _ = rehearsal.check("--only", "devices,operations", "--seconds", "20")
        for name in stages:
            expect(any("libfmt.so.9" in failure for failure in failures(stages[name])), f"{name} does not name a library that is cut off: {failures(stages[name])[:3]}")
    finally:
        shutil.rmtree(rehearsal.made)
    print("check_folder: every stage ends and reports; kernels and products that are wrong or hang, a missing GPU, and libraries that are missing or cut off are named")


if __name__ == "__main__":
    main()
