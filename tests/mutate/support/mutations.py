"""Mutations of bytes, of texts and of JSON, of the kinds that disks, editors and attackers make."""
import json
import re

NUMBERS = ["0", "-1", "1", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808",
           "18446744073709551616", "12345678901234567890", "1e308", "-1e308", "1e-320", "0.5", "1e999", "nan", "inf"]
VALUES = NUMBERS + ['""', '"x"', "null", "true", "[]", "{}", "[0]", '{"a": 1}', '"\\u0000"', '"' + "y" * 5000 + '"']


def mutate_bytes(random, data):
    """Flips bits, replaces, removes or repeats a range, or cuts the end off."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        if not data:
            return bytes(random.randbytes(random.randint(0, 16)))
        at = random.randrange(len(data))
        length = min(random.choice([1, 1, 4, 8, 64, 4096]), len(data) - at)
        kind = random.randrange(7)
        if kind == 0:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[at:at + length] = random.randbytes(length)
        elif kind == 2:
            del data[at:at + length]
        elif kind == 3:
            data[at:at] = data[at:at + length]
        elif kind == 4:
            data[at:at + length] = bytes([random.choice([0, 0x7F, 0x80, 0xFF])]) * length
        elif kind == 5:
            del data[at:]
        else:
            data[at:at] = random.randbytes(length)
    return bytes(data)


def mutate_text(random, text):
    """Replaces a number, removes, doubles or swaps lines, or nests deeply. TEXT and result are bytes."""
    lines = text.decode(errors="surrogateescape").split("\n")
    at = random.randrange(len(lines))
    kind = random.randrange(6)
    if kind <= 1:
        joined = "\n".join(lines)
        found = list(re.finditer(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", joined))
        if found:
            number = random.choice(found)
            lines = [joined[:number.start()] + random.choice(NUMBERS) + joined[number.end():]]
    elif kind == 2:
        del lines[at]
    elif kind == 3:
        lines.insert(at, lines[at])
    elif kind == 4:
        other = random.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        opening, closing = random.choice(["[]", "{}", ["[", ""], ['{"a":', "}"]])
        depth = random.choice([10, 1000, 100000])
        lines[at] += opening * depth + closing * depth
    return "\n".join(lines).encode(errors="surrogateescape")


def places(value, path=()):
    """The paths of all values in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, path + (key,))


def mutate_json(random, text):
    """Replaces, removes or doubles one value of a JSON document. TEXT and result are bytes."""
    document = json.loads(text)
    path = random.choice([place for place in places(document) if place])
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    kind = random.randrange(8)
    if kind == 0:
        del holder[path[-1]]
        return json.dumps(document, indent=2).encode()
    mark = "\x00mark\x00"
    old = json.dumps(holder[path[-1]])
    holder[path[-1]] = mark
    written = json.dumps(document, indent=2)
    value = random.choice(VALUES) if kind > 2 else old
    if kind == 1:
        depth = random.choice([10, 1000, 100000])
        value = "[" * depth + value + "]" * depth
    elif kind == 2 and isinstance(holder, dict):
        value = "%s, %s: %s" % (old, json.dumps(path[-1]), random.choice(VALUES))
    return written.replace(json.dumps(mark), value).encode()
