#!/usr/bin/env python3
"""Messages drawn at random: what Telar reads is what json, csv, fastavro and protobuf read.

    python tests/python/check_messages.py READ_MESSAGES [MESSAGES [SEED]]

READ_MESSAGES: the program of tests/support/read_messages.cpp. Without a number: 300, always the same. Without fastavro and
protobuf (python/requirements.txt) the exit code is 77.
"""

import argparse
import collections
import csv
import io
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import fastavro
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
except ImportError:
    print("check_messages: fastavro or protobuf is missing; scripts/setup python installs them")
    sys.exit(77)


class Refused(Exception):
    """The message is no sample."""


def single(number):
    """The nearest f32, which is finite."""
    try:
        value = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise Refused("too large") from None
    if not math.isfinite(value):
        raise Refused("not finite")
    return value


def numbers(value):
    """The numbers of a field: one, or those of arrays within each other."""
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in numbers(item)]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused("not a number: %r" % (value,))
    try:
        return [float(value)]
    except OverflowError:
        raise Refused("too large") from None


class Samples:
    """Samples of a format, by the rules of docs/stream.md. The first sample decides how many numbers each field has."""

    def __init__(self, case):
        self.case = case
        self.lengths = [1] * len(case["fields"]) if len(case["fields"]) == case["features"] else None

    def of(self, record):
        """`record`: its fields by name, as another reader has them."""
        names = [*self.case["fields"], self.case["label"] or "label"]
        if any(name not in record for name in names):
            raise Refused("a field is missing")
        *parts, label = [numbers(record[name]) for name in names]
        features = [number for part in parts for number in part]
        narrow = [single(number) for number in features]  # wide ones, too, must have an f32
        features = features if self.case["wide"] else narrow
        if len(features) != self.case["features"]:
            raise Refused("another number of features")
        if self.case["classes"] > 0:
            if len(label) != 1 or isinstance(record[names[-1]], (list, tuple)) or not label[0].is_integer() \
                    or not 0 <= label[0] < self.case["classes"]:
                raise Refused("not a class")
            label = [int(label[0])]
        else:
            label = [single(number) for number in label]
            if len(label) != self.case["targets"]:
                raise Refused("another number of targets")
        lengths = [len(part) for part in parts]
        self.lengths = self.lengths or lengths
        if self.lengths != lengths:
            raise Refused("another length of a field")
        return {"features": features, "label": label}


def value_of(draw):
    return draw.choice([draw.gauss(0, 1), draw.gauss(0, 1e-30), draw.gauss(0, 1e30), draw.randint(-10, 10), 2.0**draw.randint(-149, 127),
                        draw.getrandbits(63) - 2**62, draw.random() * 1e-44])


def number_text(draw, number):
    """A number as people and programs write it in JSON."""
    form = draw.choice(["{!r}", "{!r}", "{:e}", "{:.17g}", "{:.3f}", "{:.9g}", "{:.0f}", "{:E}", "{:.60f}"])
    text = form.format(number)
    if draw.random() < 0.05:
        text = draw.choice(["-0", "0.0", "1E5", "1e+05", "0.1e-5", "123456789012345678901234567890", "1e38", "3.5e38", "1e400", "1e-400",
                            "1" + "0" * 400, "1" + "0" * 400 + "e-20", "1" + "0" * 400 + "e-400", "0." + "0" * 400 + "1e20"])
    return text


# What a case of each format draws: a description of the format, and for each message its bytes. Its oracle gives the fields.

class Json:
    def __init__(self, draw, folder):
        self.names = draw.sample(["x", "price", "größe", 'a "b"', "x.y", "\u2028", "history"], draw.randint(1, 4))

    def label_kind(self):
        return "int"

    def describe(self):
        return {"format": "json", "schema_ids": []}

    def nested(self, draw, count):
        """Numbers in arrays, which are nested or not."""
        if count == 1 and draw.random() < 0.5:
            return number_text(draw, value_of(draw))
        items = []
        while count > 0:
            part = draw.randint(1, count)
            items.append(self.nested(draw, part) if part < count and draw.random() < 0.3 else
                         ",".join(number_text(draw, value_of(draw)) for _ in range(part)))
            count -= part
        return "[" + ("," + draw.choice(["", " ", "\n"])).join(items) + "]"

    def other(self, draw, depth=0):
        kind = draw.randint(0, 7 if depth < 3 else 5)
        if kind < 2:
            return draw.choice(["null", "true", "false", '""', "{}", "[]"])
        if kind < 4:
            return json.dumps(draw.choice(["a,b", 'quote " and \\', "ü\n", "\U0001f600", "}", "[1"]), ensure_ascii=draw.random() < 0.5)
        if kind < 6:
            return number_text(draw, draw.randint(-5, 5))
        items = [self.other(draw, depth + 1) for _ in range(draw.randint(0, 3))]
        if kind == 6:
            return "[" + ",".join(items) + "]"
        return "{" + ",".join('"k%d":%s' % item for item in enumerate(items)) + "}"

    def message(self, draw, case, lengths):
        fields = [(name, self.nested(draw, length)) for name, length in zip(case["fields"], lengths)]
        label = str(draw.randint(0, case["classes"] - 1)) if case["classes"] > 0 else self.nested(draw, case["targets"])
        fields.append((case["label"] or "label", label + draw.choice(["", "", ".0"]) if case["classes"] > 0 else label))
        fault = draw.random()
        if fault < 0.15:  # a field with another value, or without one
            at = draw.randrange(len(fields))
            fields[at] = (fields[at][0], draw.choice(["null", "true", '"1"', "{}", "[]", "[[1],null]", "1e39", "-1", "0.5", "[0]", "01", "1.", "+1", ".5"]))
        elif fault < 0.2:
            fields.pop(draw.randrange(len(fields)))
        elif fault < 0.25:
            fields.append(draw.choice(fields))
        fields += [(draw.choice(["id", "note", "X", "labels", "x "]), self.other(draw)) for _ in range(draw.randint(0, 2))]
        if draw.random() < 0.5:
            draw.shuffle(fields)
        space = draw.choice(["", " ", "\n\t"])
        text = "{" + ("," + space).join(json.dumps(name, ensure_ascii=draw.random() < 0.5) + space + ":" + space + value
                                        for name, value in fields) + "}"
        if draw.random() < 0.05:
            text = draw.choice([text + "x", text[:-1], "[" + text + "]", "", " " + text + "\n", "\ufeff" + text, text + text])
        return text.encode()

    def read(self, case, message):
        wanted = {*case["fields"], case["label"] or "label"}

        def once(pairs):
            counts = collections.Counter(name for name, _ in pairs)
            found = dict(pairs)
            found["twice"] = any(counts[name] > 1 for name in wanted)
            return found

        def refuse(_):
            raise Refused("not JSON")

        try:
            record = json.loads(message.decode("utf-8-sig"), object_pairs_hook=once, parse_constant=refuse)
        except ValueError:
            raise Refused("not JSON") from None
        if not isinstance(record, dict) or record["twice"]:
            raise Refused("no object, or a field twice")
        return record


class Csv:
    names = None

    def __init__(self, draw, folder):
        pass

    def label_kind(self):
        return "int"

    def describe(self):
        return {"format": "csv", "schema_ids": []}

    def message(self, draw, case, lengths):
        cells = [number_text(draw, value_of(draw)) for _ in range(case["features"])]
        place = len(cells) if case["label"] in ("", "-1") else int(case["label"])
        cells.insert(place, str(draw.randint(0, case["classes"] - 1)) if case["classes"] > 0 else number_text(draw, value_of(draw)))
        fault = draw.random()
        if fault < 0.15:
            cells[draw.randrange(len(cells))] = draw.choice(["", "x", "nan", "inf", "1e39", "-1", "0.5", "0x10", "1 2", "+1", ".5", "1.", "001"])
        elif fault < 0.2:
            cells.pop()
        elif fault < 0.25:
            cells.append("1")
        cells = [draw.choice(['"%s"', " %s", "%s "]) % cell if draw.random() < 0.1 else cell for cell in cells]
        return (",".join(cells) + draw.choice(["", "", "\n", "\r\n"])).encode()

    def read(self, case, message):
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(message.decode()), skipinitialspace=True) if row]
        if len(rows) != 1 or len(rows[0]) != case["features"] + 1:
            raise Refused("another number of cells")
        try:
            cells = [float(cell) for cell in rows[0]]
        except ValueError:
            raise Refused("no number") from None
        label = cells.pop(-1 if case["label"] == "" else int(case["label"]))
        return {**dict(zip(case["fields"], cells)), case["label"] or "label": label}


class Avro:
    """The bytes are written here, by the specification: arrays in blocks with or without their sizes."""

    def __init__(self, draw, folder):
        self.named = []  # types that can be used again
        names = ["f%d" % i for i in range(draw.randint(3, 8))]
        self.names = names[:draw.randint(1, 3)]
        numeric = set(self.names) | {"label"}
        fields = [{"name": name, "type": self.numeric(draw, name) if name in numeric else self.any_type(draw, 0)}
                  for name in draw.sample([*names, "label"], len(names) + 1)]
        for field in fields:
            if draw.random() < 0.2:
                field["doc"] = "a field"
        self.schema = {"type": "record", "name": "Row", "namespace": "shop", "fields": fields}
        self.parsed = fastavro.parse_schema(json.loads(json.dumps(self.schema)))
        self.ids = [] if draw.random() < 0.6 else [7, 300]
        self.file = os.path.join(folder, "%d.avsc" % draw.getrandbits(60))
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(self.schema, file)

    def label_kind(self):
        return next(field["type"] for field in self.schema["fields"] if field["name"] == "label")

    def describe(self):
        return {"format": "avro", "schema": self.file, "schema_ids": self.ids}

    def new_name(self, draw):
        return "T%d" % draw.getrandbits(40)

    def scalar(self, draw):
        kind = draw.choice(["int", "long", "float", "double", "enum", "logical"])
        if kind == "enum":
            return {"type": "enum", "name": self.new_name(draw), "symbols": ["A%d" % i for i in range(draw.randint(1, 5))]}
        if kind == "logical":
            return {"type": draw.choice(["int", "double"]), "logicalType": "celsius"}
        return kind

    def numeric(self, draw, name):
        """The label is a number; the first messages decide how many a field has."""
        kind = draw.random()
        if kind < 0.4 or name == "label":
            return self.scalar(draw)
        if kind < 0.6:
            branches = ["null", self.scalar(draw)]
            draw.shuffle(branches)
            return branches
        items = self.scalar(draw)
        if draw.random() < 0.2:
            items = {"type": "array", "items": items}
        if draw.random() < 0.2:
            items = ["null", items]
        return {"type": "array", "items": items}

    def any_type(self, draw, depth):
        kind = draw.choice(["boolean", "string", "bytes", "fixed", "scalar", "null", "array", "map", "record", "union", "again"])
        if kind == "fixed":
            self.named.append(self.new_name(draw))
            return {"type": "fixed", "name": self.named[-1], "size": draw.randint(0, 5)}
        if kind == "again" and self.named:
            return draw.choice(self.named)
        if depth < 3 and kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self.any_type(draw, depth + 1)}
        if depth < 3 and kind == "record":
            name = self.new_name(draw)
            record = {"type": "record", "name": name, "fields": [
                {"name": "r%d" % i, "type": self.any_type(draw, depth + 1)} for i in range(draw.randint(0, 3))]}
            self.named.append(name)
            return record
        if depth < 3 and kind == "union":
            return ["null", draw.choice(["string", "long"]), {"type": "map", "values": "bytes"}]
        return kind if kind in ("boolean", "string", "bytes", "null") else self.scalar(draw)

    @staticmethod
    def whole(value):
        bits = (value << 1) ^ (value >> 63)
        bits &= 2**64 - 1
        text = bytearray()
        while bits > 127:
            text.append(bits & 127 | 128)
            bits >>= 7
        return bytes([*text, bits])

    def define(self, types, kind):
        if isinstance(kind, dict) and "name" in kind:
            types[kind["name"]] = kind
        for inner in kind if isinstance(kind, list) else \
                [kind.get("items"), kind.get("values"), *[f["type"] for f in kind.get("fields", [])]] if isinstance(kind, dict) else []:
            self.define(types, inner)

    def blocks(self, draw, items):
        text = b""
        while items:
            part = draw.randint(1, len(items))
            content = b"".join(items[:part])
            text += self.whole(part) + content if draw.random() < 0.5 else self.whole(-part) + self.whole(len(content)) + content
            items = items[part:]
        return text + b"\0"

    def write(self, draw, types, kind, wanted=None):
        """`wanted`: so many numbers in it; None: any value."""
        kind = types.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            branch = draw.randrange(len(kind))
            if wanted is not None and kind[branch] == "null" and draw.random() < 0.9:
                branch = 1 - branch
            return self.whole(branch) + self.write(draw, types, kind[branch], wanted)
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "null":
            return b""
        if name == "boolean":
            return draw.choice([b"\0", b"\1"])
        if name in ("int", "long"):
            bits = draw.choice([3, 31 if name == "int" else 63])
            return self.whole(draw.getrandbits(bits) - 2**(bits - 1) * draw.randint(0, 1))
        if name in ("float", "double"):
            value = draw.choice([value_of(draw)] * 30 + [math.nan, math.inf])
            try:
                return struct.pack("<f" if name == "float" else "<d", value)
            except OverflowError:
                return struct.pack("<f", 1)
        if name in ("string", "bytes"):
            text = draw.choice(["", "text", "ü\U0001f600", "a" * 70]).encode()
            return self.whole(len(text)) + text
        if name == "fixed":
            return draw.randbytes(kind["size"])
        if name == "enum":
            return self.whole(draw.randrange(len(kind["symbols"])))
        if name == "array":
            count = draw.randint(0, 3) if wanted is None else max(wanted, 1)
            return self.blocks(draw, [self.write(draw, types, kind["items"], None if wanted is None else 1) for _ in range(count)])
        if name == "map":
            return self.blocks(draw, [self.whole(1) + b"k" + self.write(draw, types, kind["values"]) for _ in range(draw.randint(0, 3))])
        return b"".join(self.write(draw, types, field["type"]) for field in kind["fields"])

    def message(self, draw, case, lengths):
        types = {}
        self.define(types, self.schema)
        wanted = dict(zip(case["fields"], lengths))
        text = b""
        for field in self.schema["fields"]:
            name = field["name"]
            if name == "label" and draw.random() < 0.8 and field["type"] in ("int", "long"):
                text += self.whole(draw.randrange(max(2, case["classes"])))
            else:
                text += self.write(draw, types, field["type"], wanted.get(name, 1 if name == "label" else None))
        if draw.random() < 0.05:
            text = draw.choice([text[:-1], text + b"\0"])
        if self.ids:
            text = (b"\0" if draw.random() < 0.95 else b"\1") + struct.pack(">I", draw.choice([*self.ids * 10, 8])) + text
        return text

    def lengths_allowed(self, name):
        kind = next(field["type"] for field in self.schema["fields"] if field["name"] == name)
        return isinstance(kind, dict) and kind["type"] == "array"

    def read(self, case, message):
        if self.ids:
            if len(message) < 5 or message[0] != 0 or struct.unpack(">I", message[1:5])[0] not in self.ids:
                raise Refused("another frame")
            message = message[5:]
        stream = io.BytesIO(message)
        try:
            record = fastavro.schemaless_reader(stream, self.parsed)
        except (EOFError, IndexError, ValueError, struct.error):
            raise Refused("no record") from None
        if stream.tell() != len(message):
            raise Refused("bytes follow")
        symbols = {}

        def find(kind):
            if isinstance(kind, dict) and kind["type"] == "enum":
                symbols.update({symbol: i for i, symbol in enumerate(kind["symbols"])})
            for inner in kind if isinstance(kind, list) else [kind["items"]] if isinstance(kind, dict) and "items" in kind else []:
                find(inner)

        def without_symbols(value):
            if isinstance(value, list):
                return [without_symbols(item) for item in value]
            return symbols.get(value, value) if isinstance(value, str) else value

        for field in self.schema["fields"]:
            symbols.clear()
            find(field["type"])
            if field["name"] in (*case["fields"], "label"):
                record[field["name"]] = without_symbols(record[field["name"]])
        return record


class Protobuf:
    """The bytes are written here, by the specification: fields in any order, more than once, packed or not, unknown ones."""

    KINDS = ["double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes", "uint32",
             "enum", "sfixed32", "sfixed64", "sint32", "sint64"]
    NUMBERS = [kind for kind in KINDS if kind not in ("bool", "string", "group", "message", "bytes")]

    def __init__(self, draw, folder):
        self.proto3 = draw.random() < 0.6
        file = descriptor_pb2.FileDescriptorProto(name="f%d.proto" % draw.getrandbits(60), package="shop",
                                                  syntax="proto3" if self.proto3 else "proto2")
        kinds = file.enum_type.add(name="Kind")
        for i, number in enumerate([0, 1, 2, 5, -3]):
            kinds.value.add(name="K%d" % i, number=number)
        file.message_type.add(name="Other").field.add(name="a", number=1, type=5, label=1)
        outer = file.message_type.add(name="Outer")
        self.nested = draw.random() < 0.3
        row = outer.nested_type.add(name="Row") if self.nested else file.message_type.add(name="Row")
        self.full_name = "shop.Outer.Row" if self.nested else "shop.Row"
        self.path = [1, 0] if self.nested else [2]
        names = ["f%d" % i for i in range(draw.randint(3, 7))]
        self.names = names[:draw.randint(1, 3)]
        first = draw.randrange(len(names))  # the members of a oneof follow each other
        choice = [*names, "label"][first:first + 2] if draw.random() < 0.4 else []
        if choice:
            row.oneof_decl.add(name="choice")
        ids = draw.sample([*range(1, 30), 200, 20000, 2**29 - 1], len(names) + 1)
        for name, number in zip([*names, "label"], ids):
            wanted = name in self.names or name == "label"
            kind = draw.choice(self.NUMBERS if wanted else [kind for kind in self.KINDS if kind != "group"])
            field = row.field.add(name=name, number=number, type=self.KINDS.index(kind) + 1, label=1)
            if kind in ("enum", "message"):
                field.type_name = ".shop.Kind" if kind == "enum" else ".shop.Other"
            if name in choice:
                field.oneof_index = 0
            elif name != "label" and draw.random() < 0.4:
                field.label = 3
                if kind not in ("string", "bytes", "message") and draw.random() < 0.5:
                    field.options.packed = draw.random() < 0.5
            elif self.proto3 and draw.random() < 0.4:
                field.proto3_optional = True
                field.oneof_index = len(row.oneof_decl)
                row.oneof_decl.add(name="_" + name)
            elif not self.proto3 and draw.random() < 0.3 and kind not in ("enum", "message"):
                field.default_value = {"bool": "true", "string": "x", "bytes": "x"}.get(kind, "3")
        self.fields = {field.name: field for field in row.field}
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self.type = message_factory.GetMessageClass(pool.FindMessageTypeByName(self.full_name))
        self.ids = [] if draw.random() < 0.6 else [7, 300]
        self.file = os.path.join(folder, "%d.desc" % draw.getrandbits(60))
        with open(self.file, "wb") as output:
            output.write(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())

    def label_kind(self):
        return self.KINDS[self.fields["label"].type - 1]

    def describe(self):
        return {"format": "protobuf", "descriptor": self.file, "message": self.full_name, "schema_ids": self.ids}

    def lengths_allowed(self, name):
        return self.fields[name].label == 3

    @staticmethod
    def varint(value):
        value &= 2**64 - 1
        text = bytearray()
        while value > 127:
            text.append(value & 127 | 128)
            value >>= 7
        return bytes([*text, value])

    def value(self, draw, kind):
        """Its wire type and its bytes."""
        if kind in ("double", "float"):
            value = draw.choice([value_of(draw)] * 30 + [math.nan, math.inf])
            return (1, struct.pack("<d", value)) if kind == "double" else (5, struct.pack("<f", value if abs(value) < 1e38 else 1))
        if kind in ("fixed64", "sfixed64"):
            return 1, draw.randbytes(8)
        if kind in ("fixed32", "sfixed32"):
            return 5, draw.randbytes(4)
        if kind == "enum":
            return 0, self.varint(draw.choice([0, 1, 2, 5, -3] * 5 + [77]))
        if kind == "bool":
            return 0, draw.choice([b"\0", b"\1"])
        if kind in ("string", "bytes"):
            text = draw.choice(["", "text", "ü" * 70]).encode()
            return 2, self.varint(len(text)) + text
        if kind == "message":
            return 2, draw.choice([b"\0", b"\2\x08\1"])
        bits = draw.choice([3, 31 if "32" in kind else 63])
        value = draw.getrandbits(bits)
        if kind.startswith("int") and draw.random() < 0.3:
            value = -value
        return 0, self.varint(value)

    def unknown(self, draw):
        number = draw.choice([n for n in range(31, 60)])
        wire = draw.choice([0, 1, 2, 3, 5])
        content = {0: b"\x05", 1: bytes(8), 2: b"\3abc", 3: b"\x08\1" + self.varint(number << 3 | 4), 5: bytes(4)}[wire]
        return self.varint(number << 3 | wire) + content

    def chunks(self, draw, field, count):
        kind = self.KINDS[field.type - 1]
        packable = kind not in ("string", "bytes", "message")
        chunks = []
        while count > 0:
            part = draw.randint(1, count) if field.label == 3 and packable and draw.random() < 0.6 else 0
            values = [self.value(draw, kind) for _ in range(max(part, 1))]
            content = b"".join(value for _, value in values)
            chunks.append(self.varint(field.number << 3 | 2) + self.varint(len(content)) + content if part > 0 else
                          self.varint(field.number << 3 | values[0][0]) + content)
            count -= max(part, 1)
        return chunks

    def message(self, draw, case, lengths):
        wanted = dict(zip(case["fields"], lengths))
        parts = []  # chunks of a field in their order
        for name, field in self.fields.items():
            if name == "label" and draw.random() < 0.8 and self.KINDS[field.type - 1] in ("int32", "int64", "uint32", "uint64"):
                parts.append([self.varint(field.number << 3) + self.varint(draw.randrange(max(2, case["classes"])))])
            elif name in wanted or name == "label":
                count = wanted.get(name, 1)
                if draw.random() < 0.07:
                    count += draw.choice([-1, 1])
                parts.append(self.chunks(draw, field, count))
            else:
                parts.append(self.chunks(draw, field, draw.randint(0, 2)))
        parts += [[self.unknown(draw)] for _ in range(draw.randint(0, 2))]
        if draw.random() < 0.05:
            parts = draw.choice([[], [[self.unknown(draw)]], parts[:1]])
        if draw.random() < 0.5:
            draw.shuffle(parts)
        text = b"".join(chunk for part in parts for chunk in part)
        if draw.random() < 0.04:
            text = draw.choice([text[:-1], text + b"\x07", text + b"\0"])
        if self.ids:
            path = b"\0" if self.path == [0] else self.varint(len(self.path) << 1) + b"".join(self.varint(i << 1) for i in self.path)
            path = draw.choice([path] * 20 + [b"\0", b"\2\4" if self.nested else b"\4\2\0"])
            text = (b"\0" if draw.random() < 0.95 else b"\1") + struct.pack(">I", draw.choice([*self.ids * 10, 8])) + path + text
        return text

    def of_type(self, message):
        """Whether a message that is valid has a field of the type."""
        numbers = {field.number for field in self.fields.values()}
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = message[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        groups = 0
        while at < len(message):
            tag = varint()
            if groups == 0 and tag >> 3 in numbers:
                return True
            wire = tag & 7
            groups += (wire == 3) - (wire == 4)
            if wire == 0:
                varint()
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            elif wire == 2:
                length = varint()
                at += length
        return False

    def read(self, case, message):
        if self.ids:
            if len(message) < 5 or message[0] != 0 or struct.unpack(">I", message[1:5])[0] not in self.ids:
                raise Refused("another frame")
            path = b"\0" if self.path == [0] else self.varint(len(self.path) << 1) + b"".join(self.varint(i << 1) for i in self.path)
            if not message[5:].startswith(path):
                raise Refused("another message")
            message = message[5 + len(path):]
        parsed = self.type()
        try:
            parsed.ParseFromString(message)
        except Exception as error:  # of protobuf's own kind, which depends on its version
            raise Refused("not valid: %s" % error) from None
        if message and not self.of_type(message):
            raise Refused("of another type")
        record = {}
        unknown = {field.field_number for field in unknown_fields.UnknownFieldSet(parsed)}
        for name in (*case["fields"], "label"):
            field = self.fields[name]
            if field.number in unknown:
                raise Refused("no value of an enum of proto2")
            if field.label == 3:
                record[name] = list(getattr(parsed, name))
                continue
            if (not self.proto3 or field.HasField("oneof_index")) and not parsed.HasField(name):
                continue
            record[name] = getattr(parsed, name)
        return record


def draw_case(draw, folder, kind):
    """A format, and the lengths of its fields in most messages."""
    form = kind(draw, folder)
    whole = form.label_kind() in ("int", "long", "int32", "int64", "uint32", "uint64") or draw.random() < 0.1
    classes = draw.choice([0, 2, 10, 1000]) if whole else 0
    names = form.names
    if kind is Csv:
        names = ["c%d" % i for i in range(draw.randint(1, 6))]
        label = draw.choice(["", "-1", "0", str(len(names))])
    else:
        label = draw.choice(["", "label", "y"]) if kind is Json else ""
    variable = getattr(form, "lengths_allowed", lambda name: kind is Json)
    lengths = [draw.randint(1, 4) if variable(name) and draw.random() < 0.5 else 1 for name in names]
    case = {**form.describe(), "wide": draw.random() < 0.5, "classes": classes, "fields": names, "label": label, "features": sum(lengths),
            "targets": draw.randint(1, 3) if kind is Json else 1}
    return form, case, lengths


def check(program, count, seed, folder):
    draw = random.Random(seed)
    cases = []
    messages = 0
    while messages < count:
        kind = draw.choice([Json, Csv, Avro, Protobuf])
        form, case, lengths = draw_case(draw, folder, kind)
        case["messages"] = [form.message(draw, case, lengths).hex() for _ in range(draw.randint(1, 9))]
        messages += len(case["messages"])
        cases.append((form, case))
    lines = "".join(json.dumps(case) + "\n" for _, case in cases)
    answer = subprocess.run([program], input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[:-1]
    read = collections.Counter()
    for (form, case), line in zip(cases, answer, strict=True):
        samples = Samples(case)
        for digits, found in zip(case["messages"], json.loads(line), strict=True):
            try:
                right = samples.of(form.read(case, bytes.fromhex(digits)))
            except Refused as error:
                right = str(error)
            read[case["format"], isinstance(right, dict)] += 1
            if found != right if isinstance(right, dict) else isinstance(found, dict):
                details = {name: value for name, value in case.items() if name != "messages"}
                sys.exit("seed %d: a message is read as\n  %s\nbut is\n  %s\n%s\n%s\n%s" % (
                    seed, found, right, details, bytes.fromhex(digits), getattr(form, "schema", getattr(form, "fields", ""))))
    for form in ("json", "csv", "avro", "protobuf"):
        if not read[form, True] > read[form, False] / 2:
            sys.exit("of %s, only %d messages are samples, and %d are not" % (form, read[form, True], read[form, False]))
    print("%d messages are read as json, csv, fastavro and protobuf read them; samples: %s" % (
        messages, ", ".join("%s %d of %d" % (form, read[form, True], read[form, True] + read[form, False])
                            for form in ("json", "csv", "avro", "protobuf"))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("count", type=int, nargs="?", default=300)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check(words.program, words.count, words.seed, folder)


if __name__ == "__main__":
    main()
