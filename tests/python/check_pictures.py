#!/usr/bin/env python3
"""Pictures drawn at random: what Telar reads is what Pillow reads, up to 1 of 255.

    PYTHONPATH=build/release/python scripts/install-peers --run tests/python/check_pictures.py [PICTURES [SEED]]

A model that predicts its input shows every pixel. Without PICTURES: 300, always the same. Samples of 16 bits of grey, which Pillow
cuts off, are scaled.
"""

import io
import os
import random
import sys
import tempfile
import warnings

import numpy as np
from PIL import Image, ImageOps

from identity import main, make_run, predicted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from picture_files import bmp, chunk, exif, gif_in_canvas, png, tiff, webp_animation  # noqa: E402

SIZES = [(1, 1), (5, 9), (16, 11), (24, 33)]  # of the upright picture
BITFIELDS = {16: [(), (0xF800, 0x07E0, 0x001F), (0x7C00, 0x03E0, 0x001F)],
             32: [(), (0xFF0000, 0xFF00, 0xFF), (0xFF000000, 0xFF0000, 0xFF00), (0xFF, 0xFF00, 0xFF0000, 0xFF000000)]}


def samples(draw, size, count, bits=8):
    """[height, width, count]: noise, slopes, or plains of a few values."""
    rng = np.random.default_rng(draw.getrandbits(32))
    most = (1 << bits) - 1
    kind = draw.randrange(3)
    if kind == 0:
        return rng.integers(0, most + 1, size=(*size, count))
    if kind == 1:
        y, x = np.mgrid[0:size[0], 0:size[1]]
        slopes = rng.uniform(-1, 1, size=(3, count))
        value = slopes[0] * (y[..., None] / size[0]) + slopes[1] * (x[..., None] / size[1]) + slopes[2]
        return np.uint16(np.abs(np.sin(value * 3)) * most)
    few = rng.integers(0, most + 1, size=(4, count))
    return few[np.repeat(rng.integers(0, 4, size=(size[0], (size[1] + 2) // 3)), 3, axis=1)[:, :size[1]]]


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def image(draw, size, mode):
    if mode == "P":
        return image(draw, size, "RGB").quantize(draw.randint(2, 256))
    if mode in ("1", "CMYK"):
        return image(draw, size, "L" if mode == "1" else "RGB").convert(mode)
    array = np.uint8(samples(draw, size, len(mode)))
    return Image.fromarray(array[..., 0] if mode == "L" else np.ascontiguousarray(array))


def draw_png(draw, size, turn):
    kind = draw.choice(["image", "grey", "palette", "deep"])
    if kind == "image":
        mode = draw.choice(["1", "L", "LA", "P", "RGB", "RGBA"])
        options = {"exif": exif(turn)} if turn else {}
        if mode in ("L", "P") and draw.random() < 0.5:
            options["transparency"] = 1
        return encoded(image(draw, size, mode), "PNG", compress_level=draw.randint(0, 9), **options)
    before = [chunk(b"gAMA", (draw.choice([45455, 100000])).to_bytes(4, "big"))] if draw.random() < 0.3 else []
    if turn:
        before.append(chunk(b"eXIf", exif(turn, draw.choice("<>"))))
    interlaced = draw.random() < 0.5
    if kind == "deep":
        count = draw.randint(1, 4)
        return png(samples(draw, size, count, 16), (0, 4, 2, 6)[count - 1], 16, *before, interlaced=interlaced)
    bits = draw.choice([1, 2, 4, 8])
    if kind == "grey":
        return png(samples(draw, size, 1, bits), 0, bits, *before, interlaced=interlaced)
    table = np.uint8(samples(draw, (1, 1 << bits), 3)).tobytes()
    return png(samples(draw, size, 1, bits), 3, bits, *before, chunk(b"PLTE", table), interlaced=interlaced)


def draw_jpeg(draw, size, turn):
    options = {"quality": draw.randint(10, 100), "progressive": draw.random() < 0.4, "optimize": draw.random() < 0.3}
    if turn:
        options["exif"] = b"Exif\0\0" + exif(turn, draw.choice("<>"))
    if draw.random() < 0.3:
        options["restart_marker_blocks"] = draw.randint(1, 3)
    mode = draw.choice(["L", "RGB", "RGB", "RGB", "CMYK"])
    if mode == "RGB":
        options |= draw.choice([{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"keep_rgb": True}])
    return encoded(image(draw, size, mode), "JPEG", **options)


def draw_webp(draw, size, turn):
    options = {"lossless": draw.random() < 0.5, "quality": draw.randint(0, 100), "exact": draw.random() < 0.5, "method": draw.randint(0, 4)}
    height, width = size
    if not turn and height > 6 and draw.random() < 0.3:
        left, top = draw.choice([0, 2]), draw.choice([0, 4])
        return webp_animation(encoded(image(draw, (height - top, width - left - 1), "RGB"), "WEBP", **options), left, top, width, height)
    if turn:
        options["exif"] = exif(turn, draw.choice("<>"))
    mode = draw.choice(["L", "P", "RGB", "RGB", "RGBA"])
    if draw.random() < 0.2:
        options |= {"save_all": True, "append_images": [image(draw, size, "RGB")]}
    return encoded(image(draw, size, mode), "WEBP", **options)


def draw_gif(draw, size, turn):
    options = {"interlace": draw.randint(0, 1)}
    if draw.random() < 0.3:
        options["transparency"] = draw.randint(0, 1)
    if draw.random() < 0.3:
        options["comment"] = "a comment"
    if draw.random() < 0.2:
        options |= {"save_all": True, "append_images": [image(draw, size, "P")]}
    if size[0] > 6 and draw.random() < 0.3:
        top, left = draw.randint(0, 2), draw.randint(0, 2)
        inner = encoded(image(draw, (size[0] - top, size[1] - left - 1), "P"), "GIF", **options)
        return gif_in_canvas(inner, left, top, size[1], size[0], local=draw.random() < 0.5)
    return encoded(image(draw, size, draw.choice(["1", "L", "P", "RGB", "RGBA"])), "GIF", **options)


def draw_bmp(draw, size, turn):
    if draw.random() < 0.3:
        return encoded(image(draw, size, draw.choice(["1", "L", "P", "RGB", "RGBA"])), "BMP")
    bits = draw.choice([1, 4, 8, 16, 24, 32])
    header = draw.choice([40, 40, 52, 56, 64, 108, 124])
    options = {"top_down": draw.random() < 0.3}
    if bits > 8:
        numbers = samples(draw, size, 3) if bits == 24 else samples(draw, size, 1, bits)[..., 0]
        masks = draw.choice(BITFIELDS[bits]) if bits != 24 and header != 64 else ()
        if masks:
            header = 108 if len(masks) == 4 else draw.choice([40, 52])
        return bmp(numbers, bits, header=header if masks or header != 52 else 40, masks=masks, **options)
    colours = draw.randint(2, 1 << bits)
    if draw.random() < 0.2:
        header, colours, options = 12, 1 << bits, {}
    elif bits > 1 and draw.random() < 0.4:
        options = {"compressed": True}
    numbers = samples(draw, size, 1, bits)[..., 0] % colours
    return bmp(numbers, bits, np.uint8(samples(draw, (colours, 1), 3))[:, 0], header=header, gap=draw.choice([0, 0, 2]), **options)


def draw_tiff(draw, size, turn):
    kind = draw.choice(["image", "grey", "palette", "colours"])
    if kind == "image":
        mode = draw.choice(["1", "L", "P", "RGB", "RGBA", "CMYK"])
        ways = [None, "tiff_lzw", "packbits", "tiff_adobe_deflate"] + {"1": ["group3", "group4"], "RGB": ["jpeg"], "L": ["jpeg"]}.get(mode, [])
        options = {"compression": draw.choice(ways), "tiffinfo": {274: turn} if turn else {}}
        if options["compression"] in ways[1:4:2] and mode in ("L", "RGB", "RGBA"):
            options["tiffinfo"][317] = 2  # differences from the pixel before
        if draw.random() < 0.2:
            options |= {"save_all": True, "append_images": [image(draw, size, mode)]}
        return encoded(image(draw, size, mode), "TIFF", **options)
    # Pillow reads no big-endian BigTIFF, and 16 bits in planes as 8.
    options = {**draw.choice([{"order": "<"}, {"order": ">"}, {"big": True}]), "deflate": draw.random() < 0.5,
               "orientation": turn or None, **draw.choice([{}, {"strip": draw.randint(1, 20)}, {"tile": (16, 32)}])}
    if kind == "colours":
        bits = draw.choice([8, 16])
        extra = draw.choice([(), (0,), (2,)] + [(1,)] * (bits == 8))
        pixels = samples(draw, size, 3 + len(extra), bits)
        if extra == (1,):
            pixels = np.minimum(pixels, pixels[..., 3:])
        return tiff(pixels, bits, 2, extra=extra, separate=bits == 8 and not extra and draw.random() < 0.3, **options)
    bits = draw.choice([1, 2, 4, 8, 16] if kind == "grey" else [1, 2, 4, 8])
    if kind == "palette":
        return tiff(samples(draw, size, 1, bits), bits, 3, palette=np.uint8(samples(draw, (1 << bits, 1), 3))[:, 0], **options)
    return tiff(samples(draw, size, 1, bits), bits, 1 if bits == 16 else draw.randint(0, 1), **options)


KINDS = {"png": draw_png, "jpeg": draw_jpeg, "webp": draw_webp, "gif": draw_gif, "bmp": draw_bmp, "tiff": draw_tiff}


def draw_picture(draw, size):
    """A file of a picture that has this size when it is upright."""
    kind = draw.choice(list(KINDS))
    turn = draw.choice([0, 0, 1, 2, 3, 4, 5, 6, 7, 8]) if kind not in ("gif", "bmp") else 0
    return kind, KINDS[kind](draw, size[::-1] if turn >= 5 else size, turn)


def read_by_pillow(file, channels):
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    if picture.mode.startswith("I;16"):
        picture = Image.fromarray(np.uint8(np.round(np.asarray(picture).astype(float) / 257)))
    pixels = np.asarray(picture.convert("RGB" if channels == 3 else "L")).astype(int)
    return pixels.reshape(*pixels.shape[:2], channels)


def difference(found, right):
    return np.abs(found - right).max() if found.shape == right.shape else f"size {found.shape} and not {right.shape}"


def check(pictures, seed, folder):
    draw = random.Random(seed)
    for number, size in enumerate(SIZES):
        files = {}
        for i in range(number, pictures, len(SIZES)):
            kind, content = draw_picture(draw, size)
            path = os.path.join(folder, f"{i}.{kind}")
            with open(path, "wb") as file:
                file.write(content)
            files[path] = content
        for channels in (1, 3) if files else ():
            shape = (channels, *size)
            with tempfile.TemporaryDirectory() as place:
                data = {"source": "synthetic", "shape": list(shape), "samples": 2, "test_samples": 0}
                found = predicted(make_run(shape, data, place), list(files))
            for path, content in files.items():
                pixels = found[path].reshape(shape).transpose(1, 2, 0) * 255
                differs = difference(pixels, read_by_pillow(content, channels))
                if isinstance(differs, str) or differs > 1.01:
                    sys.exit(f"seed {seed}, {os.path.basename(path)}, {channels} channels: differs by {differs}\n{content.hex()}")
    print(f"{pictures} pictures are read as Pillow reads them")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(check)
