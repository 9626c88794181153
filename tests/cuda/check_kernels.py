"""Holds the table of kernels that nvcc has made (tests/cuda/kernels.tsv, by scripts/kernels) to its limits.

    python3 check_kernels.py [TABLE]

Exit status 77: the table is of older sources; `scripts/bundle FOLDER` makes a new one where nvcc is.
"""

import csv
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")

REGISTERS = 64  # with more, less than half of a multiprocessor's threads fit
# Kernels that may need more, and how many. The first pattern that is found in "FILE: KERNEL" counts.
MORE_REGISTERS = (
    # The numbers of eight channels, and the values of two rows.
    (r"batch_norm.cu: each_index<for_each_channel<8, Slopes<.*, true> >", 96),
    (r"batch_norm.cu: each_index<for_each_channel<8, Slopes<.*, false> >", 72),
    (r"batch_norm.cu: each_column<GradientSums<8>, .*, true> >", 80),
    # 64-bit places of channels last: more than 2^31 values only.
    (r"pooling.cu: each_index<MaxPoolBackward<8, Extents<long, true>", 96),
    (r"pooling.cu: each_index<MaxPoolBackward<4, Extents<long, true>", 88),
    (r"pooling.cu: each_index<MaxPool(Backward)?<[18], Extents<long, true>", 72),
    # NVIDIA's.
    (r"embedding.cu: cub::.*DeviceRadixSortOnesweepKernel", 80),
    (r"embedding.cu: cub::.*DeviceRadixSortSingleTileKernel", 128),
)
# Kernels that may use a stack on sm_90, and how many bytes. Elsewhere SPILL_ELSEWHERE bytes of spills are allowed.
STACK = (
    # Of cosf and sinf for angles above 105615, which do not occur here.
    (r"random_normal.cu: each_index<DrawPair>", 32),
)
SPILL_ELSEWHERE = 8
# Kernels that are to read and write 16 bytes at once, with the fewest such loads and stores.
WIDE = (
    (r"for_each_wide<\d, (Map<|Accumulate<false>)", 1, 1),
    (r"for_each_wide<\d, (MapBackward<|Combine<|Accumulate<true>)", 2, 1),
    (r"for_each_wide<4, Convert<float, float>", 1, 1),
    (r"for_each_wide<4, Convert<float, __nv_bfloat16>", 1, 0),
    (r"for_each_wide<4, Convert<__nv_bfloat16, float>", 0, 1),
    (r"for_each_channel<[48], Normalise<", 2, 2),
    (r"for_each_channel<[48], Slopes<", 4, 2),
    (r"each_column<GradientSums<[48]>|TermOfPixels<[48], GradientSums", 2, 0),
    (r"each_column<(Moments|Sums)<[48]>|TermOfPixels<[48], (Moments|Sums)", 1, 0),
    (r"add_typed<(float, \w+, 4|__nv_bfloat16, \w+, 8)>", 1, 1),
    (r"copy_(walk_)?counted<Pack<(float, 4l|__nv_bfloat16, 8l)>", 1, 1),
    (r"forward_packed<[48],", 4, 1),
    (r"backward_packed<[48],", 6, 1),
    (r"(Max|Average)Pool(Backward)?<[48],", 1, 1),
    (r"update_with<0, ", 2, 1),
    (r"update_with<1, ", 3, 2),
    (r"update_with<2, ", 4, 3),
    (r"sum_squares\(.*#1\}, SumInDouble", 1, 0),
    (r"LookUp<float, float, \w+( int)?, 4>", 1, 1),
    (r"dropout.cu: each_index<Drop<float,", 1, 1),
)

def of_list(patterns, row):
    return next((more for pattern, *more in patterns if re.search(pattern, f"{row['file']}: {row['kernel']}")), None)


def faults(rows):
    for row in rows:
        number = {key: int(row[key]) for key in ("generation", "registers", "stack", "spill_stores", "spill_loads", "ld16", "st16")}
        name = f"{row['file']}, sm_{row['generation']}: {row['kernel']}"
        spilled = max(number["spill_stores"], number["spill_loads"])
        if spilled > (0 if number["generation"] == 90 else SPILL_ELSEWHERE):
            yield f"{name} spills {spilled} bytes"
        if number["generation"] != 90:
            continue
        stack = (of_list(STACK, row) or [0])[0]
        if number["stack"] > stack:
            yield f"{name} has {number['stack']} bytes of stack; {stack} are allowed"
        registers = (of_list(MORE_REGISTERS, row) or [REGISTERS])[0]
        if number["registers"] > registers:
            yield f"{name} needs {number['registers']} registers; {registers} are allowed"
        loads, stores = of_list(WIDE, row) or (0, 0)
        if number["ld16"] < loads or number["st16"] < stores:
            yield f"{name} has {number['ld16']} loads and {number['st16']} stores of 16 bytes; {loads} and {stores} are intended"


def unmatched(rows):
    """Limits of kernels that do not exist any more."""
    return [pattern for pattern, *_ in (*MORE_REGISTERS, *STACK, *WIDE) if not any(of_list([(pattern, 0)], row) for row in rows)]


def main():
    table = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests/cuda/kernels.tsv")
    with open(table, encoding="utf-8") as file:
        known = file.readline().split()[-1]
        rows = list(csv.DictReader(file, delimiter="\t"))
    sources = subprocess.run([os.path.join(ROOT, "scripts/kernels"), "--sources"], check=True, capture_output=True, text=True).stdout.strip()
    if known != sources:
        print(f"SKIPPED: {table} is of other sources ({known[:12]}, not {sources[:12]}): scripts/bundle FOLDER makes it again where nvcc is")
        sys.exit(77)
    wrong = [*faults(rows), *(f"no kernel is like '{pattern}'" for pattern in unmatched(rows))]
    ours = [row for row in rows if row["generation"] == "90"]
    if len(ours) < 300:
        wrong.append(f"{len(ours)} kernels of sm_90 are in the table; there are more than 300")
    if wrong:
        sys.exit("check_kernels: " + "\n".join(wrong))
    print(f"check_kernels: {len(ours)} kernels for sm_90 keep their limits; the least occupancy is {min(float(row['occupancy']) for row in ours):.3f}")


if __name__ == "__main__":
    main()
