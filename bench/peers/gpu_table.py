"""Prints the ratios of scripts/bench-gpu: PyTorch's median over Telar's, for each workload and setting, and what must be reached.

    python gpu_table.py FILE
"""

import json
import statistics
import sys

# PyTorch over Telar: eager, compiled
WANTED = {
    "mlp32": (10, None),
    "resnet34_3x3_b128_bf16": (2, 1.1),
    "resnet34_224_bf16": (1.2, 1.0),
}


def fail(sentence):
    print(f"gpu_table: {sentence}", file=sys.stderr)
    sys.exit(2)


def read_medians(path):
    """Milliseconds by workload, framework and setting."""
    medians = {}
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    framework = record["framework"].split()[0]
                    key = (record["workload"], framework, record["setting"])
                    medians.setdefault(key, []).append(float(record["median_ms"]))
                except (ValueError, KeyError, TypeError, AttributeError, IndexError):
                    fail(f"line {number} of {path} is no measurement of scripts/bench-gpu, which has workload, framework, setting and median_ms")
    except OSError as error:
        fail(f"{path} cannot be read ({error.strerror}); scripts/bench-gpu writes it")
    except UnicodeDecodeError:
        fail(f"{path} is no text; scripts/bench-gpu writes one JSON object a line")
    if not medians:
        fail(f"{path} has no measurements; scripts/bench-gpu writes one a line")
    return medians


def main():
    if len(sys.argv) != 2:
        fail("one file is wanted, that which scripts/bench-gpu writes: gpu_table.py FILE")
    medians = read_medians(sys.argv[1])
    for (workload, framework, setting), values in medians.items():
        print(f"{workload:<26} {framework:<8} {setting:<34} {statistics.median(values):10.4f} ms")
    for workload, wanted in WANTED.items():
        own = medians.get((workload, "telar", "the batch is on the GPU"))
        for setting, least in zip(("eager", "torch.compile, max-autotune"), wanted):
            peer = medians.get((workload, "pytorch", setting))
            if own and peer and least:
                ratio = statistics.median(peer) / statistics.median(own)
                print(f"{workload}: {setting} / telar = {ratio:.2f}, at least {least}: {'reached' if ratio >= least else 'NOT REACHED'}")


if __name__ == "__main__":
    main()
