"""Prints the table of scripts/bench-peers from lines of JSON, and the target of each workload.

    python table.py RESULTS.jsonl

A line is one of these; a step has one line per round:
    {"kind": "environment", "framework", "version", "cpu", "threads", "date"}
    {"kind": "step", "framework", "workload", "setting", "reps", "median_ms", "min_ms", "max_ms"[, "limit_ms"]
     [, "over_limit"][, "images_per_second"]}
    {"kind": "module", "model", "batch", "rounds", "telar", "eager"[, "compiled"], "products_ms"}: a step of telar.torch and of
     PyTorch (bench/python/steps.py), each as {"median_ms", "min_ms", "max_ms"}
    {"kind": "memory", "framework", "workload", "setting", "peak_bytes"[, "after_import_bytes"]}
The framework is telar, pytorch, keras or onednn (the same operation alone). `limit_ms` is the time of the
step's convolutions and products alone, plus the optimizer's bytes divided by the measured bandwidth, measured
in turn with the steps. `over_limit` is the median, over the turns, of step divided by limit.
"""

import json
import statistics
import sys

# (workload, framework): the least speed-up over the framework's best setting (for Keras: the default `fit`)
FASTER_THAN = {
    ("mlp32", "pytorch"): 2.0,
    ("mlp32", "keras"): 8.0,
    ("mlp128", "pytorch"): 1.25,
    ("resnet34_3x3", "pytorch"): 1.1,
    ("resnet34_3x3_bf16", "pytorch"): 1.1,
    ("resnet34_7x7", "pytorch"): 1.7,
    ("resnet34_7x7_bf16", "pytorch"): 2.0,
    ("resnet34_128", "pytorch"): 1.15,
    ("resnet34_128_bf16", "pytorch"): 1.35,
}
# workload: the greatest ratio of its time to its limit
TIMES_LIMIT = {
    "mlp128": 1.10,
    "resnet34_3x3": 1.05,
    "resnet34_3x3_bf16": 1.08,
    "resnet34_7x7": 1.10,
    "resnet34_7x7_bf16": 1.15,
    "resnet34_128": 1.06,
    "resnet34_128_bf16": 1.10,
}
# Products and convolutions: the least speed relative to the better of oneDNN alone and PyTorch.
PRODUCT_RATIO = 0.95
# The time of a step with all batches in memory, divided by that of a step of the same epoch with its input
# pipeline.
EPOCH_RATIO = 0.97
IN_MEMORY, IN_EPOCH = "batches in memory", "input pipeline included"
BF16_SPEEDUP = 1.7
# The speed-up from a second replica, with one thread and the same batch each, in the workload "convnet".
ONE_REPLICA, TWO_REPLICAS = "1 × 1 threads", "2 × 1 threads"
REPLICA_SPEEDUP = 1.9
STARTUP_SECONDS = 0.3
MEMORY_RATIO = 0.7


def read(path):
    with open(path) as file:
        return merge_rounds([json.loads(line) for line in file if line.strip()])


def merge_rounds(records):
    """Merges the step records of each setting: the medians of the rounds, the lowest minimum and the highest
    maximum."""
    rounds = {}
    for record in records:
        if record["kind"] == "step":
            rounds.setdefault((record["framework"], record["workload"], record["setting"]), []).append(record)
    merged = [record for record in records if record["kind"] != "step"]
    for of_setting in rounds.values():
        one = dict(of_setting[0])
        for key in ("median_ms", "limit_ms", "over_limit", "images_per_second"):
            if key in one:
                one[key] = statistics.median(record[key] for record in of_setting)
        one["min_ms"] = min(record["min_ms"] for record in of_setting)
        one["max_ms"] = max(record["max_ms"] for record in of_setting)
        merged.append(one)
    return merged


def best(records, framework, workload, setting=None):
    """The record of a setting with the lowest median, or None. Without a setting: of all that use every
    core."""
    candidates = [r for r in records if r["kind"] == "step" and r["framework"] == framework and
                  r["workload"] == workload and
                  (r["setting"] == setting or setting is None and r["setting"] not in (ONE_REPLICA, TWO_REPLICAS))]
    return min(candidates, key=lambda r: r["median_ms"], default=None)


def span(record):
    if record is None:
        return "–"
    digits = 3 if record["median_ms"] < 10 else 1
    return "{:.{d}f} ({:.{d}f}–{:.{d}f})".format(record["median_ms"], record["min_ms"], record["max_ms"], d=digits)


def print_rows(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_steps(records):
    rows = [("workload", "telar ms", "PyTorch ms", "its best setting", "Keras fit ms", "Keras best ms", "limit ms")]
    for workload in dict.fromkeys(r["workload"] for r in records if r["kind"] == "step"):
        ours = best(records, "telar", workload)
        torch = best(records, "pytorch", workload.removesuffix("_winograd"))
        alone = best(records, "onednn", workload)
        limit = alone["median_ms"] if alone else ours.get("limit_ms") if ours else None
        rows.append((workload, span(ours), span(torch), torch["setting"] if torch else "–",
                     span(best(records, "keras", workload, "fit")), span(best(records, "keras", workload)),
                     f"{limit:.3f}" if limit else "–"))
    print("Training step: median (min–max)")
    print_rows(rows)


def print_modules(modules):
    rows = [("model", "batch", "telar ms", "eager ms", "compiled ms", "better PyTorch / telar", "products ms")]
    for record in modules:
        peers = [record[who]["median_ms"] for who in ("eager", "compiled") if who in record]
        rows.append((record["model"], str(record["batch"]), *(span(record.get(who)) for who in ("telar", "eager", "compiled")),
                     f"{min(peers) / record['telar']['median_ms']:.2f}", f"{record['products_ms']:.3f}"))
    print("Step of a PyTorch module: median (min–max)")
    print_rows(rows)


def checks(records):
    """Yields (what, measured ratio, target, whether it is reached) for everything that was measured."""
    for (workload, framework), wanted in FASTER_THAN.items():
        ours = best(records, "telar", workload)
        theirs = best(records, framework, workload, "fit" if framework == "keras" else None)
        if ours and theirs:
            ratio = theirs["median_ms"] / ours["median_ms"]
            yield f"{workload}: speed over {framework}", ratio, f"≥ {wanted:.2f}", ratio >= wanted
    for workload, wanted in TIMES_LIMIT.items():
        ours = best(records, "telar", workload)
        if ours and "over_limit" in ours:
            ratio = ours["over_limit"]
            yield f"{workload}: time over the limit", ratio, f"≤ {wanted:.2f}", ratio <= wanted
    for workload in dict.fromkeys(r["workload"] for r in records if r["kind"] == "step" and r["framework"] == "onednn"):
        ours = best(records, "telar", workload)
        others = [r for r in (best(records, "onednn", workload), best(records, "pytorch", workload)) if r]
        ratio = min(r["median_ms"] for r in others) / ours["median_ms"]
        yield f"{workload}: speed over the better of oneDNN and PyTorch", ratio, f"≥ {PRODUCT_RATIO:.2f}", ratio >= PRODUCT_RATIO
    in_memory, in_epoch = best(records, "telar", "epoch", IN_MEMORY), best(records, "telar", "epoch", IN_EPOCH)
    if in_memory and in_epoch:
        ratio = in_memory["median_ms"] / in_epoch["median_ms"]
        yield "epoch: speed over the same with its batches in memory", ratio, f"≥ {EPOCH_RATIO:.2f}", ratio >= EPOCH_RATIO
    f32 = best(records, "telar", "resnet34_3x3")
    bf16 = best(records, "telar", "resnet34_3x3_bf16")
    if f32 and bf16:
        ratio = f32["median_ms"] / bf16["median_ms"]
        yield "resnet34_3x3: bf16 speed over f32", ratio, f"≥ {BF16_SPEEDUP:.2f}", ratio >= BF16_SPEEDUP
    one = best(records, "telar", "convnet", ONE_REPLICA)
    two = best(records, "telar", "convnet", TWO_REPLICAS)
    if one and two:
        ratio = two["images_per_second"] / one["images_per_second"]
        yield "convnet: images/s of 2 replicas over 1", ratio, f"≥ {REPLICA_SPEEDUP:.2f}", ratio >= REPLICA_SPEEDUP
    startup = best(records, "telar", "startup")
    if startup:
        seconds = startup["median_ms"] / 1e3
        yield "startup: seconds of a training of one step", seconds, f"≤ {STARTUP_SECONDS:.2f}", seconds <= STARTUP_SECONDS
    peaks = {}
    for record in records:
        if record["kind"] == "memory":
            key = (record["workload"], record["framework"])
            peaks[key] = min(peaks.get(key, record["peak_bytes"]), record["peak_bytes"])
    for (workload, framework), peak in peaks.items():
        if framework == "telar" and (workload, "pytorch") in peaks:
            ratio = peak / peaks[workload, "pytorch"]
            yield f"{workload}: peak memory over PyTorch's", ratio, f"≤ {MEMORY_RATIO:.2f}", ratio <= MEMORY_RATIO


def main():
    records = read(sys.argv[1])
    versions = {}
    for record in records:
        if record["kind"] == "environment":
            versions[record["framework"]] = record
    for record in versions.values():
        print(f"{record['framework']} {record['version']}, {record['cpu']}, {record['threads']} threads, {record['date']}")
    if any(r["kind"] == "step" for r in records):
        print()
        print_steps(records)
    modules = [r for r in records if r["kind"] == "module"]
    if modules:
        print()
        print_modules(modules)
    memory = [r for r in records if r["kind"] == "memory"]
    if memory:
        print("\nPeak memory of a process that trains a few steps")
        rows = [("workload", "framework", "setting", "peak MiB", "before the first step MiB")]
        for record in memory:
            before = record.get("after_import_bytes")
            rows.append((record["workload"], record["framework"], record["setting"],
                         f"{record['peak_bytes'] / 2**20:.0f}", f"{before / 2**20:.0f}" if before else "–"))
        print_rows(rows)
    verdicts = list(checks(records))
    if verdicts:
        print("\nTargets")
        print_rows([(what, f"{ratio:.2f}", wanted, "reached" if ok else "NOT REACHED")
                    for what, ratio, wanted, ok in verdicts])


if __name__ == "__main__":
    main()
