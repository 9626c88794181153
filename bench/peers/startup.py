"""Times `telar train bench/startup.yaml` from the start of the process to its end: one step, including the
run folder and the checkpoint.

    python startup.py TELAR JOB [--reps 10]
"""

import argparse
import os
import subprocess
import tempfile
import time

from timing import print_times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("telar")
    parser.add_argument("job")
    parser.add_argument("--reps", type=int, default=10)
    arguments = parser.parse_args()
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.reps + 1):
            run = os.path.join(folder, str(number))
            command = [arguments.telar, "train", arguments.job, "--quiet", "--set", f"output.folder={run}"]
            start = time.perf_counter()
            subprocess.run(command, check=True)
            times.append(1e3 * (time.perf_counter() - start))
    print_times("telar", "startup", "mlp32, one step", times[1:])


if __name__ == "__main__":
    main()
