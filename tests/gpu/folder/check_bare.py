"""Rehearses the folder of scripts/gpu-folder in a Debian 12 and a Debian 13 with nothing but Python, and pip's libraries of
NVIDIA: all but the driver is found and loaded, a library that is missing is named, and the Python package can be used. Not for
a folder of stand-ins, which need no driver.

    sudo python3 check_bare.py FOLDER [--keep DIR]       needs root, debootstrap, and scripts/install-peers (for NVIDIA's libraries)

DIR keeps the systems for the next time, and the results of each run; a temporary folder by default.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

from check_folder import PEERS, ROOT, expect, failures

SUITES = {"bookworm": "3.11", "trixie": "3.13"}
# Each is mounted where pip puts it. libcuda.so.1, the driver's, is nowhere.
LIBRARIES = ("libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libnccl.so.2")


def system_of(suite, keep):
    root = os.path.join(keep, suite)
    if not os.path.exists(os.path.join(root, "usr/bin/python3")):
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=python3", suite, root], check=True, stdout=subprocess.DEVNULL)
    packages = os.path.join(root, f"usr/local/lib/python{SUITES[suite]}/dist-packages")
    if not os.path.isdir(os.path.join(packages, "numpy")):
        subprocess.run([*PEERS, "-m", "pip", "install", "--quiet", "--target", packages, "--python-version", SUITES[suite], "--only-binary", ":all:",
                        "numpy"], check=True)
    return root, packages


def run_in(root, packages, nvidia, without, *command):
    """A command in the system, where pip's libraries of NVIDIA are mounted, but for one package of them."""
    mounts = ["set -e"]
    for source in sorted(glob.glob(f"{nvidia}/*/lib")):
        if source.split("/")[-2] != without:
            target = os.path.join(packages, "nvidia", source.split("/")[-2], "lib")
            mounts += [f"mkdir -p '{target}'", f"mount --bind '{source}' '{target}'"]
    mounts += [f"mount --bind /proc '{root}/proc'", f"mount --bind /dev '{root}/dev'", f"exec chroot '{root}' env -i PATH=/usr/bin:/bin HOME=/root \"$@\""]
    return subprocess.run(["unshare", "--mount", "bash", "-c", "\n".join(mounts), "bash", *command], capture_output=True, text=True, check=False, timeout=300)


def check(root, packages, nvidia, results, without=None):
    run = run_in(root, packages, nvidia, without, "/telar-gpu/check", "--only", "devices,python", "--seconds", "60", "--out", "/results")
    expect(run.returncode == 3 and os.path.exists(os.path.join(root, "results/results.json")), f"check ends with {run.returncode}: {run.stdout}{run.stderr}")
    shutil.rmtree(results, ignore_errors=True)
    shutil.copytree(os.path.join(root, "results"), results)
    with open(os.path.join(results, "screen.txt"), "w", encoding="utf-8") as file:
        file.write(run.stdout + run.stderr)
    with open(os.path.join(results, "results.json"), encoding="utf-8") as file:
        return {stage["stage"]: stage for stage in json.load(file)["stages"]}, run.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    keep = arguments.keep or tempfile.mkdtemp(prefix="telar-bare-")
    where = subprocess.run([*PEERS, "-c", "import nvidia; print(list(nvidia.__path__)[0])"], capture_output=True, text=True, check=False)
    expect(where.returncode == 0, f"there are no libraries of NVIDIA: {where.stdout}{where.stderr}")
    for suite, version in SUITES.items():
        root, packages = system_of(suite, keep)
        carried = os.path.join(root, "telar-gpu")
        shutil.rmtree(carried, ignore_errors=True)
        shutil.copytree(arguments.folder, carried, ignore=shutil.ignore_patterns("unpacked", "results*"))
        stages, said = check(root, packages, where.stdout.strip(), os.path.join(keep, f"results-{suite}"))
        wrong = failures(stages["devices"])
        expect(len(wrong) == 1 and wrong[0].startswith("GPU: no driver: libcuda.so.1"), f"{suite}: devices: {wrong}")
        loaded = [note.split(":")[0] for note in stages["devices"]["notes"]]
        expect(set(LIBRARIES) < set(loaded) and len(loaded) > 50, f"{suite}: devices loads only {loaded}")
        expect("python: not run: no driver" in said, f"{suite}: it is not said that no other stage runs: {said}")
        stages, _ = check(root, packages, where.stdout.strip(), os.path.join(keep, f"results-{suite}-without-cudnn"), "cudnn")
        wrong = failures(stages["devices"])
        expect(any(failure.startswith("libcudnn.so.9: cannot be loaded") for failure in wrong), f"{suite}: a missing library is not named: {wrong}")
        shutil.copy(os.path.join(ROOT, "tests/python/check_native.py"), carried)
        run = run_in(root, packages, where.stdout.strip(), None, "env", "PYTHONPATH=/telar-gpu/unpacked/python", "PATH=/telar-gpu/unpacked/bin:/usr/bin:/bin",
                     "python3", "/telar-gpu/check_native.py")
        expect(run.returncode == 0, f"{suite}: the Python package fails: {run.stderr[-1500:]}")
        print(f"check_bare: {suite}, Python {version}: all but the driver is loaded; without cuDNN that is named; check_native.py: "
              f"{run.stderr.strip().splitlines()[-3]}", flush=True)
    if not arguments.keep:
        shutil.rmtree(keep)


if __name__ == "__main__":
    sys.exit(main())
