"""Picture files of kinds that Pillow reads, but does not write. Arrays are [height, width, samples]."""

import struct
import zlib

import numpy as np


def chunk(kind, data):
    """Of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(array, colours, bits, *before, after=b"", interlaced=False):
    """With further chunks before and after the pixels."""
    height, width = array.shape[:2]
    adam7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    passes = [array[y::down, x::across] for y, x, down, across in adam7] if interlaced else [array]
    rows = b"".join(b"\0" + stored(row, bits, ">") for part in passes if part.size for row in part)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, interlaced))
    return (b"\x89PNG\r\n\x1a\n" + header + b"".join(before) + chunk(b"IDAT", zlib.compress(rows)) + after
            + chunk(b"IEND", b""))


def exif(orientation, order="<"):
    entries = [(0x010E, 2, 4, b"cat\0"), (0x0112, 3, 1, struct.pack(order + "HH", orientation, 0))]
    directory = b"".join(struct.pack(order + "HHI", *entry[:3]) + entry[3] for entry in entries)
    return (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries)) + directory + bytes(4)


def packed(row, bits):
    """Numbers of 1, 2, 4 or 8 bits, the first in the highest bits."""
    kept = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits:]
    return np.packbits(kept).tobytes()


def stored(row, bits, order):
    return packed(row.reshape(-1), bits) if bits <= 8 else row.astype(f"{order}u{bits // 8}").tobytes()


def runs(row, of4):
    """A row of a BMP file with runs: those of one number, and up to 8 pixels as they are."""
    data = b""
    at = 0
    while at < len(row):
        same = 1
        while at + same < len(row) and same < 255 and row[at + same] == row[at]:
            same += 1
        rest = min(len(row) - at, 8)
        if same > 2 or rest < 3:
            data += bytes([same, row[at] * (17 if of4 else 1)])
            at += same
        else:
            plain = packed(np.array(row[at:at + rest]), 4 if of4 else 8)
            data += bytes([0, rest]) + plain + bytes(len(plain) % 2)
            at += rest
    return data


def bmp(array, bits, palette=None, header=40, masks=(), compressed=False, top_down=False, gap=0):
    """Of numbers of `bits`, or for 24 of red, green and blue. `palette`: [N, 3]. `gap`: bytes before the pixels."""
    height, width = array.shape[:2]
    rows = array if top_down else array[::-1]
    if compressed:
        data = b"\0\0".join(runs([int(number) for number in row], bits == 4) for row in rows) + b"\0\1"
    else:
        lines = [row[:, ::-1].astype(np.uint8).tobytes() if bits == 24 else stored(row, bits, "<") for row in rows]
        data = b"".join(line + bytes(-len(line) % 4) for line in lines)
    colours = np.zeros((0, 3), np.uint8) if palette is None else palette
    fill = b"" if header == 12 else b"\0"
    table = b"".join(bytes(colour[::-1]) + fill for colour in colours)
    kind = 3 if masks else (1 if bits == 8 else 2) if compressed else 0
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits, kind, len(data), 0, 0,
                           len(colours), 0) + struct.pack(f"<{len(masks)}I", *masks)
        info += bytes(max(0, header - len(info)))
    at = 14 + len(info) + len(table) + gap
    return struct.pack("<2sIHHI", b"BM", at + len(data), 0, 0, at) + info + table + bytes(gap) + data


def tiff(array, bits, photometric, order="<", big=False, separate=False, tile=None, strip=None, deflate=False, extra=(),
         palette=None, orientation=None):
    """`tile`: (height, width), else strips of `strip` rows. `palette`: [2^bits, 3]."""
    height, width, samples = array.shape
    down, across = tile if tile else (strip or height, width)
    planes = [array[..., i:i + 1] for i in range(samples)] if separate else [array]
    parts = []
    for plane in planes:
        for top in range(0, height, down):
            for left in range(0, width, across):
                part = plane[top:top + down, left:left + across]
                if tile:
                    part = np.pad(part, [(0, down - part.shape[0]), (0, across - part.shape[1]), (0, 0)])
                data = b"".join(stored(row, bits, order) for row in part)
                parts.append(zlib.compress(data) if deflate else data)
    offset = "Q" if big else "I"
    start = 16 if big else 8
    places = [start + sum(map(len, parts[:i])) for i in range(len(parts))]
    sizes = list(map(len, parts))
    tags = {256: ("I", [width]), 257: ("I", [height]), 258: ("H", [bits] * samples), 259: ("H", [8 if deflate else 1]),
            262: ("H", [photometric]), 277: ("H", [samples]), 284: ("H", [2 if separate else 1])}
    tags |= ({322: ("I", [across]), 323: ("I", [down]), 324: (offset, places), 325: (offset, sizes)} if tile else
             {273: (offset, places), 278: ("I", [down]), 279: (offset, sizes)})
    if orientation is not None:
        tags[274] = ("H", [orientation])
    if extra:
        tags[338] = ("H", list(extra))
    if palette is not None:
        tags[320] = ("H", [int(value) * 257 for value in palette.T.reshape(-1)])
    body = b"".join(parts)
    body += bytes(len(body) % 2)
    kinds = {"H": 3, "I": 4, "Q": 16}
    room = 8 if big else 4
    entries = b""
    far = b""
    directory = start + len(body)
    behind = directory + (8 if big else 2) + len(tags) * (12 + 2 * (room - 4) if big else 12) + room
    for tag, (kind, values) in sorted(tags.items()):
        data = struct.pack(f"{order}{len(values)}{kind}", *values)
        if len(data) > room:
            at = struct.pack(order + offset, behind + len(far))
            far += data + bytes(len(data) % 2)
            data = at
        entries += struct.pack(f"{order}HH{offset}", tag, kinds[kind], len(values)) + data.ljust(room, b"\0")
    mark = b"II" if order == "<" else b"MM"
    head = mark + (struct.pack(order + "HHHQ", 43, 8, 0, directory) if big else struct.pack(order + "HI", 42, directory))
    return head + body + struct.pack(order + ("Q" if big else "H"), len(tags)) + entries + bytes(room) + far


def gif_in_canvas(file, left, top, width, height, local=False):
    """A GIF file with its first frame in a larger canvas, and its colours in a table of the frame if wanted."""
    at = file.index(b",", 13 + (3 << ((file[10] & 7) + 1) if file[10] & 128 else 0))
    file = bytearray(file)
    file[6:10] = struct.pack("<HH", width, height)
    file[at + 1:at + 5] = struct.pack("<HH", left, top)
    if local and file[10] & 128:
        table = file[13:13 + (3 << ((file[10] & 7) + 1))]
        file[at + 9:at + 10] = bytes([file[at + 9] & 64 | 128 | file[10] & 7]) + table
        file[10] &= 0x70
        del file[13:13 + len(table)]
    return bytes(file)


def webp_animation(still, left, top, width, height):
    """An animation of one frame, the picture of another file without metadata, at an even place."""
    kind = still[12:16]
    frame_width, frame_height = {b"VP8L": lambda: ((int.from_bytes(still[21:25], "little") & 0x3FFF) + 1,
                                                   (int.from_bytes(still[21:25], "little") >> 14 & 0x3FFF) + 1),
                                 b"VP8 ": lambda: struct.unpack("<HH", still[26:30])}[kind]()
    numbers = b"".join(number.to_bytes(3, "little") for number in (left // 2, top // 2, frame_width - 1, frame_height - 1, 40))

    def part(name, data):
        return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)

    canvas = bytes([0x12, 0, 0, 0]) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBP" + part(b"VP8X", canvas) + part(b"ANIM", bytes(6)) + part(b"ANMF", numbers + b"\2" + still[12:])
    return b"RIFF" + struct.pack("<I", len(body)) + body
