"""Prints the ratios of scripts/bench-gpu (PyTorch's median divided by Telar's, for each workload and
setting), and the targets.

    python gpu_table.py FILE            FILE has one measurement per line
    python gpu_table.py --lines RESULT  prints the measurements of a result as such lines

RESULT is a file from `telar bench matmul|conv --json`, or the summary.json of a training.
"""

import argparse
import json
import statistics
import sys

ON_GPU = "the batch is on the GPU"
IN_TRAINING = "telar train"

# The least ratio of PyTorch's time, in the best of these settings, to Telar's
WANTED = [
    ("mlp32", ON_GPU, ("eager",), 10),
    ("resnet34_3x3_b128_bf16", ON_GPU, ("eager",), 2),
    ("resnet34_3x3_b128_bf16", ON_GPU, ("torch.compile, max-autotune",), 1.1),
    ("resnet34_224_bf16", ON_GPU, ("eager",), 1.2),
    ("resnet34_224_bf16", ON_GPU, ("torch.compile, max-autotune",), 1.0),
    *(("matmul 10000", precision, (precision,), 0.95) for precision in ("f32", "tf32", "bf16")),
    *(("conv 200", precision, (f"{precision}, NCHW", f"{precision}, channels_last"), 1.0) for precision in ("f32", "tf32", "bf16")),
]
MOST_MS = {"mlp32": 0.030}
LEAST_BUSY = 0.95


def fail(sentence):
    print(f"gpu_table: {sentence}", file=sys.stderr)
    sys.exit(2)


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        fail(f"{path} cannot be read ({error.strerror})")
    except UnicodeDecodeError:
        fail(f"{path} is not a text file")


def read_medians(path):
    """The median milliseconds by (workload, framework, setting)."""
    medians = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            record = json.loads(line)
            framework = record["framework"].split()[0]
            key = (record["workload"], framework, record["setting"])
            medians.setdefault(key, []).append(float(record["median_ms"]))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            fail(f"line {number} of {path} is not a measurement of scripts/bench-gpu; it needs workload, framework, setting and median_ms")
    if not medians:
        fail(f"{path} has no measurements; scripts/bench-gpu writes one per line")
    return {key: statistics.median(values) for key, values in medians.items()}


def print_lines(path):
    """Prints what `telar bench` or `telar train` measured, one JSON object per line."""
    def line(workload, setting, milliseconds):
        print(json.dumps({"framework": "telar", "workload": workload, "setting": setting, "median_ms": milliseconds}))

    try:
        result = json.loads(read_text(path))
        if "images_per_second" in result:
            line("fashion_mnist", IN_TRAINING, 1e3 * 128 / result["images_per_second"])
            return
        for row in result["rows"]:
            size = row.get("side") or row["images"]
            if "median_ms" in row:
                line(f"{result['experiment']} {size}", row["precision"], row["median_ms"])
            else:
                print(f"gpu_table: {result['experiment']} {size} {row['precision']} was not measured: {row.get('impossible')}", file=sys.stderr)
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        fail(f"{path} is neither a result of telar bench matmul or conv nor the summary.json of a training")


def verdict(reached):
    return "reached" if reached else "NOT REACHED"


def print_table(path):
    medians = read_medians(path)
    for (workload, framework, setting), value in medians.items():
        print(f"{workload:<26} {framework:<8} {setting:<34} {value:10.4f} ms")
    for workload, own_setting, peer_settings, least in WANTED:
        own = medians.get((workload, "telar", own_setting))
        peers = [medians[key] for setting in peer_settings if (key := (workload, "pytorch", setting)) in medians]
        if own and peers:
            ratio = min(peers) / own
            print(f"{workload}: {' or '.join(peer_settings)} / telar, {own_setting} = {ratio:.2f}, at least {least}: {verdict(ratio >= least)}")
    for workload, most in MOST_MS.items():
        if own := medians.get((workload, "telar", ON_GPU)):
            print(f"{workload}: {1e3 * own:.1f} µs per step, at most {1e3 * most:.0f}: {verdict(own <= most)}")
    alone = medians.get(("convnet_b128", "telar", ON_GPU))
    training = medians.get(("fashion_mnist", "telar", IN_TRAINING))
    if alone and training:
        print(f"fashion_mnist: the GPU is busy {alone / training:.1%} of the time, at least {LEAST_BUSY:.0%}: {verdict(alone / training >= LEAST_BUSY)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="store_true", help="print the measurements of this result of telar, one per line")
    parser.add_argument("file")
    arguments = parser.parse_args()
    (print_lines if arguments.lines else print_table)(arguments.file)


if __name__ == "__main__":
    main()
