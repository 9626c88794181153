#!/usr/bin/env python3
"""Runs telar weave --check on every .py file in the folders. No file may make it crash or hang.
Prints the files that do, and those that it accepts as training scripts.

    check_library.py [--seconds S] [--allow N] TELAR FOLDER...

--seconds: stop after this time; files are taken in random order (default 0: check all files).
--allow: the number of files that may be accepted as training scripts (default 0).
"""
import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import time

SECONDS_EACH = 5  # CPU time, so that a busy machine makes no difference


def ask(telar, path):
    command = ["sh", "-c", 'ulimit -t %d; exec "$@"' % SECONDS_EACH, "sh", telar, "weave", "--check", path]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=60 * SECONDS_EACH)
    except subprocess.TimeoutExpired:
        return path, "does not end"
    if answer.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return path, "takes more than %d s" % SECONDS_EACH
    text = (answer.stdout + answer.stderr).decode(errors="replace").strip()
    if answer.returncode not in (0, 2, 3):
        return path, "exit code %d: %s" % (answer.returncode, text[-300:])
    if answer.returncode == 2 or "no training" in text or "already parallel" in text:
        return path, None
    return path, "training: " + text.splitlines()[0][:200]


def main():
    seconds, allowed = 0.0, 0
    arguments = sys.argv[1:]
    while arguments[0].startswith("--"):
        if arguments[0] == "--seconds":
            seconds = float(arguments[1])
        if arguments[0] == "--allow":
            allowed = int(arguments[1])
        arguments = arguments[2:]
    telar = os.path.abspath(arguments[0])
    files = []
    for folder in arguments[1:]:
        for path, _, names in os.walk(folder):
            files += [os.path.join(path, name) for name in names if name.endswith(".py")]
    random.Random(0).shuffle(files)
    begin = time.time()
    done, wrong, training = 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for start in range(0, len(files), 64):
            for path, complaint in pool.map(lambda one: ask(telar, one), files[start:start + 64]):
                done += 1
                if complaint is None:
                    continue
                taken = complaint.startswith("training")
                training += taken
                wrong += not taken
                print(path + ": " + complaint, flush=True)
            if seconds and time.time() - begin > seconds:
                break
    print("%d of %d files: %d accepted as training scripts, %d crash or hang" % (
        done, len(files), training, wrong))
    sys.exit(wrong > 0 or training > allowed)


if __name__ == "__main__":
    main()
