#!/usr/bin/env python3
"""Tables drawn at random: what Telar reads is what pandas reads (without it, the module csv).

    PYTHONPATH=build/release/python python tests/python/check_tables.py [TABLES [SEED]]

A model that predicts its input shows every number that was read, raw and normalised. Without TABLES: 300, always the same.
"""

import csv
import io
import os
import random
import sys
import warnings

import numpy

from identity import main, make_run, predicted

try:
    import pandas
except ImportError:
    pandas = None

NAMES = ["a", "mean radius", "größe, cm", "1990"]


def number(draw):
    """A number as people and programs write it."""
    value = draw.choice([draw.gauss(0, 1), draw.gauss(0, 1e-7), 1.7e9 + draw.random() * 1e6, draw.randint(-1000, 1000),
                         draw.gauss(0, 1e30), draw.gauss(0, 1e-40)])
    text = draw.choice(["{!r}", "{:.3f}", "{:e}", "{:.17g}", "{:+.6g}", "{:.0f}"]).format(value)
    text = text[1:] if text.startswith("0.") and draw.random() < 0.2 else text
    quoted = '"' + text + '"' if draw.random() < 0.1 else text
    return " " + quoted if draw.random() < 0.05 else quoted


def draw_table(draw, path):
    """Writes a table with NAMES in some order, further columns, and the label or not."""
    names = NAMES + draw.sample(["id", "label", "note x", "0"], draw.randint(0, 3))
    draw.shuffle(names)
    rows = [[number(draw) for _ in names] for _ in range(draw.randint(1, 30))]
    header = ['"' + name + '"' if "," in name or draw.random() < 0.3 else name for name in names]
    end = draw.choice(["\n", "\r\n", "\r"])
    lines = [",".join(row) for row in [header, *rows]]
    if draw.random() < 0.3:
        lines.insert(draw.randint(1, len(lines)), "")
    text = draw.choice(["", "\ufeff"]) + end.join(lines) + draw.choice(["", end, end + end])
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def read_table(path):
    """The columns NAMES of a table, by another reader."""
    with open(path, encoding="utf-8-sig") as file:  # pandas itself fails at some tables whose lines end with CR
        text = file.read()
    if pandas is not None:
        frame = pandas.read_csv(io.StringIO(text), float_precision="round_trip", skipinitialspace=True)
        return frame[NAMES].to_numpy(dtype="f8")
    header, *rows = [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if row]
    return numpy.array([[float(row[header.index(name)]) for name in NAMES] for row in rows])


def check(tables, seed, folder):
    draw = random.Random(seed)
    train = os.path.join(folder, "train.csv")
    with open(train, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*NAMES, "label"])
        writer.writerows([draw.gauss(0, 1), draw.gauss(0, 1e-7), 1.7e9 + i, i % 20, draw.random()] for i in range(500))
    paths = [os.path.join(folder, f"{i}.csv") for i in range(tables)]
    for path in paths:
        draw_table(draw, path)
    rows = read_table(train)
    for normalise in (False, True):
        place = os.path.join(folder, f"normalise-{normalise}")
        os.mkdir(place)
        run = make_run([len(NAMES)], {"source": "csv", "path": train, "normalise": normalise}, place)
        mean, deviation = (rows.mean(0), rows.std(0)) if normalise else (0, 1)
        for path, found in predicted(run, [train, *paths]).items():
            right = (read_table(path) - mean) / deviation
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                right = right.astype("f4")
            if found.shape != right.shape or not numpy.allclose(found, right, rtol=2e-7 if not normalise else 2e-6, atol=1e-37):
                worst = numpy.abs(found - right).max() if found.shape == right.shape else (found.shape, right.shape)
                with open(path, encoding="utf-8") as text:
                    sys.exit(f"seed {seed}, normalise {normalise}: differs by {worst}\n{text.read()}\n{found}\n{right}")
    print(f"{tables} tables are read as {'pandas' if pandas else 'the module csv'} reads them")


if __name__ == "__main__":
    main(check)
