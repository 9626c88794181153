"""Random numbers that are the same in every process and leave the program's generators alone."""
import zlib

import numpy as np

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def generator(*key):
    """A generator whose numbers depend only on the key."""
    return np.random.RandomState(zlib.crc32("/".join(map(str, key)).encode()))


def pixels(shape, *key):
    """An array of bytes."""
    count = int(np.prod(shape))
    return np.frombuffer(bytearray(generator(*key).bytes(count)), np.uint8).reshape(shape)


def patterns(size, classes, name):
    """An image of a few grey or coloured squares for each class; grey ones are mostly black, as digits are."""
    height, width, channels = size
    squares = pixels((classes, 7, 7, channels), "patterns", name)
    if channels == 1:
        squares[squares < 160] = 0
    rows, columns = (np.arange(count) * 7 // count for count in (height, width))
    return squares[:, rows][:, :, columns] // 4 * 3


def images(size, labels, classes, name, *key):
    """An image [H, W, C] for each label: the pattern of its class, and noise. So a network can learn them."""
    drawn = pixels((len(labels),) + size, name, *key)
    drawn >>= 2
    known = patterns(size, classes, name)
    for at in range(0, len(labels), 1000):
        drawn[at:at + 1000] += known[labels[at:at + 1000] % classes]
    return drawn


def labels(count, classes, *key):
    """Labels from 0; each class occurs if there are enough samples."""
    return generator(*key).permutation(np.arange(count, dtype=np.int64) % classes)


def text(words, *key):
    """Lines of words, some of which are frequent."""
    draw = generator(*key)
    known = ["".join(ALPHABET[one] for one in draw.randint(0, 26, draw.randint(2, 9))) for _ in range(500)]
    drawn = np.minimum(draw.geometric(0.02, words) - 1, len(known) - 1)
    return "\n".join(" ".join(known[one] for one in drawn[at:at + 12]) + "." for at in range(0, words, 12)) + "\n"
