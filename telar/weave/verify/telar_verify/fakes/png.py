"""Writes images without a library."""
import struct
import zlib

import numpy as np


def write_png(path, array):
    """Writes an array [H, W] or [H, W, 3] of bytes."""
    height, width = array.shape[:2]
    raw = b"".join(b"\0" + np.ascontiguousarray(row).tobytes() for row in array)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if array.ndim == 3 else 0, 0, 0, 0)),
                           (b"IDAT", zlib.compress(raw, 1)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
