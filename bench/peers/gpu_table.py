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


def main():
    medians = {}
    for line in open(sys.argv[1]):
        record = json.loads(line)
        framework = record["framework"].split()[0]
        medians.setdefault((record["workload"], framework, record["setting"]), []).append(record["median_ms"])
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
