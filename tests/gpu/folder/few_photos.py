"""Copies the first photos of a data set in MNIST's four files.

    python3 few_photos.py FROM TO [TRAINING] [TEST]          10,000 and 2,000 by default
"""

import gzip
import struct
import sys


def copy(source, target, count):
    """The first `count` records of an IDX file of bytes; its head says how many there are."""
    with gzip.open(source) as file:
        head = bytearray(file.read(8))
        dimensions = head[3]
        head += file.read(4 * dimensions - 4)
        lengths = struct.unpack(f">{dimensions}I", head[4:])
        size = 1
        for length in lengths[1:]:
            size *= length
        struct.pack_into(">I", head, 4, min(count, lengths[0]))
        with open(target, "wb") as few:
            few.write(head + file.read(count * size))


def main():
    if len(sys.argv) not in (3, 5):
        sys.exit(__doc__)
    counts = [int(text) for text in sys.argv[3:]] or [10_000, 2_000]
    for part, count in zip(("train", "t10k"), counts):
        for kind in ("images-idx3", "labels-idx1"):
            copy(f"{sys.argv[1]}/{part}-{kind}-ubyte.gz", f"{sys.argv[2]}/{part}-{kind}-ubyte", count)


if __name__ == "__main__":
    main()
