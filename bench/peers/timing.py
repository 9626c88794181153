"""Common functions of the peers' benchmarks: time a step, read the memory used, print a result."""

import json
import platform
import statistics
import sys
import time


def time_steps(step, warm_up=3, min_reps=10, min_seconds=1.0):
    """Milliseconds of each call of `step`: at least `min_reps` calls and `min_seconds`, after the warm-up."""
    until = time.perf_counter() + min_seconds / 4
    done = 0
    while done < warm_up or time.perf_counter() < until:
        step()
        done += 1
    times = []
    total = 0.0
    while len(times) < min_reps or total < min_seconds:
        start = time.perf_counter()
        step()
        elapsed = time.perf_counter() - start
        times.append(1e3 * elapsed)
        total += elapsed
    return times


def memory(field):
    """Bytes of one field of this process's status: VmHWM (the peak; unlike ru_maxrss it does not inherit the
    parent's peak through fork and exec) or VmRSS (now)."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no field {field}")


def cpu_model():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def print_environment(framework, version, threads):
    print_line({
        "kind": "environment",
        "framework": framework,
        "version": version,
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "threads": threads,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    })


def print_times(framework, workload, setting, times):
    print_line({
        "kind": "step",
        "framework": framework,
        "workload": workload,
        "setting": setting,
        "reps": len(times),
        "median_ms": round(statistics.median(times), 4),
        "min_ms": round(min(times), 4),
        "max_ms": round(max(times), 4),
        "mean_ms": round(statistics.fmean(times), 4),
    })


def print_line(record):
    json.dump(record, sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()
