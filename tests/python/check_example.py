#!/usr/bin/env python3
"""Runs an example of examples/python, cell by cell, as a notebook does; its own assertions must hold.

    PYTHONPATH=build/release/python python tests/python/check_example.py NAME [LIBRARY]

NAME: the file without .py. LIBRARY: a library that the example is about; without it, nothing is run, and the exit code is 77.
"""

import importlib
import os
import pathlib
import sys
import tempfile
import time
import traceback

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
MARK = "# %%"


def cells(text):
    """(number of the line before it, text) of each cell with code. A cell of text is made of comments."""
    lines = text.splitlines(keepends=True)
    begins = [i for i, line in enumerate(lines) if line.startswith(MARK)]
    for begin, end in zip(begins, [*begins[1:], len(lines)]):
        body = lines[begin + 1:end]
        if "[markdown]" not in lines[begin]:
            yield begin + 1, "".join(body)
        elif any(line.strip() and not line.startswith("#") for line in body):
            raise SystemExit(f"line {begin + 1}: a cell of text has lines that are not comments")


def run(name):
    path = FOLDER / f"{name}.py"
    names = {"__name__": "__main__"}
    for before, text in cells(path.read_text(encoding="utf-8")):
        began = time.monotonic()
        try:
            exec(compile("\n" * before + text, path, "exec"), names)
        except Exception:
            traceback.print_exc()
            raise SystemExit(f"the cell of line {before} of {name}.py has failed") from None
        print(f"    (line {before}: {time.monotonic() - began:.1f} s)", flush=True)


def main():
    name, *libraries = sys.argv[1:]
    for library in libraries:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        try:
            importlib.import_module(library)
        except ModuleNotFoundError:
            print(f"check_example: SKIPPED, there is no {library} for {name}.py; scripts/install-peers installs it")
            raise SystemExit(77) from None
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        run(name)


if __name__ == "__main__":
    main()
