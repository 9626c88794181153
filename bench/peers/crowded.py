"""Prints how much of its quiet speed a training step keeps while other programs use the machine.

    python crowded.py [--seconds 2] [--rounds 3] [--peers FOLDER] [WORKLOAD...]

In each round, each framework trains on the quiet machine and then in each condition. The figure of a round is
the speed in a condition divided by the quiet speed of the same round; the table has the medians of the rounds
(minimum-maximum). Speeds are images per second over the whole time, since crowded steps vary by a factor of
100. A quota of q CPUs allows q divided by the number of processors.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHES = {"mlp32": 32, "mlp128": 128, "convnet": 64}
# condition: (busy processes, niceness of the training, quota in CPUs, the part of the quiet speed to be kept)
CONDITIONS = {
    "quiet": (0, 0, None, None),
    "beside 1 busy process": (1, 0, None, 0.6),
    "beside 2": (2, 0, None, 0.4),
    "niced beside 1": (1, 19, None, 0.4),
    "quota of 1 CPU": (0, 0, 1.0, None),
    "quota of 1.5 CPUs": (0, 0, 1.5, None),
}
OF_QUOTA = 0.9  # the part of quota / processors to be kept


def target(condition, processors):
    _, _, quota, part = CONDITIONS[condition]
    return OF_QUOTA * min(1, quota / processors) if quota else part


def command(framework, workload, seconds, peers):
    if framework == "telar":
        step = ROOT / "build/release/bench/bench_step"
        return [str(step), "--workload", workload, "--seconds", str(seconds), "--threads", "0", "--no-limit", "--json"]
    python = str(pathlib.Path(peers) / "bin/python")
    here = pathlib.Path(__file__).parent
    if framework == "pytorch":
        return [python, str(here / "torch_steps.py"), "--seconds", str(seconds), workload]
    return [python, str(here / "keras_steps.py"), workload, "--settings", "fit", "--epochs", "5"]


@contextlib.contextmanager
def busy_processes(count):
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def control_group(quota):
    """The file to which a process writes its id to be limited to `quota` CPUs; None without a quota. Raises
    OSError where this machine does not let us make such a group."""
    if quota is None:
        yield None
        return
    period = 100000
    first_version = pathlib.Path("/sys/fs/cgroup/cpu")
    parent = first_version if first_version.is_dir() else pathlib.Path("/sys/fs/cgroup")
    group = pathlib.Path(tempfile.mkdtemp(prefix="telar-crowded-", dir=parent))
    try:
        if parent == first_version:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(int(quota * period)))
        else:
            (parent / "cgroup.subtree_control").write_text("+cpu")
            (group / "cpu.max").write_text(f"{int(quota * period)} {period}")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def measure(framework, workload, condition, arguments):
    """Images per second of the framework's best setting, by setting."""
    busy, niceness, quota, _ = CONDITIONS[condition]
    with busy_processes(busy), control_group(quota) as processes:

        def before():
            if processes is not None:
                processes.write_text(str(os.getpid()))
            os.nice(niceness)

        words = command(framework, workload, arguments.seconds, arguments.peers)
        done = subprocess.run(words, preexec_fn=before, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench-crowded: {framework} failed ({' '.join(words)}):\n{done.stderr}")
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {record["setting"]: 1e3 * BATCHES[workload] / record["mean_ms"] for record in records
            if record["kind"] == "step"}


def one_round(framework, workload, arguments, speeds):
    for condition in CONDITIONS:
        try:
            measured = measure(framework, workload, condition, arguments)
        except OSError as error:
            print(f"bench-crowded: {condition}: not measured: {error}", file=sys.stderr)
            continue
        speeds.setdefault((framework, workload, condition), []).append(measured)
        record = {"framework": framework, "workload": workload, "condition": condition, "images_per_second": measured}
        with open(ROOT / "build/bench-crowded.jsonl", "a") as log:
            print(json.dumps(record), file=log)


def best_setting(rounds):
    """The setting with the highest median speed on the quiet machine."""
    return max(rounds[0], key=lambda setting: statistics.median(speeds[setting] for speeds in rounds))


def cell(speeds, framework, workload, condition):
    quiet = speeds[framework, workload, "quiet"]
    setting = best_setting(quiet)
    if condition == "quiet":
        return f"{statistics.median(speeds[setting] for speeds in quiet):,.0f} images/s"
    rounds = speeds.get((framework, workload, condition))
    if rounds is None or len(rounds) != len(quiet):
        return "not measured"
    # Under a quota Telar uses another number of threads, and names that one setting so.
    parts = [crowded.get(setting, max(crowded.values())) / alone[setting] for crowded, alone in zip(rounds, quiet)]
    return f"{statistics.median(parts):.2f} ({min(parts):.2f}-{max(parts):.2f})"


def print_table(speeds, frameworks, workloads):
    processors = len(os.sched_getaffinity(0))
    print("| workload | condition | " + " | ".join(frameworks) + " | target |")
    print("|---|---|" + "---|" * (len(frameworks) + 1))
    for workload in workloads:
        for condition in CONDITIONS:
            cells = [cell(speeds, framework, workload, condition) for framework in frameworks]
            least = target(condition, processors)
            print(f"| {workload} | {condition} | {' | '.join(cells)} | {'' if least is None else f'{least:.2f}'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(BATCHES))
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="folder of PyTorch's and TensorFlow's virtual environment")
    arguments = parser.parse_args()
    workloads = arguments.workloads or list(BATCHES)
    for workload in workloads:
        if workload not in BATCHES:
            parser.error(f"there is no workload '{workload}'; it must be one of {', '.join(BATCHES)}")
    frameworks = ["telar"] + (["pytorch", "keras"] if arguments.peers else [])
    speeds = {}
    for workload in workloads:
        for number in range(arguments.rounds):
            print(f"bench-crowded: {workload}, round {number + 1} of {arguments.rounds}", file=sys.stderr)
            for framework in frameworks:
                one_round(framework, workload, arguments, speeds)
    print_table(speeds, frameworks, workloads)


if __name__ == "__main__":
    main()
