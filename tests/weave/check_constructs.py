#!/usr/bin/env python3
"""Compares the table of constructs in docs/weave.md with the corpus: one row for each script, made of the first
sentence of its documentation.

    check_constructs.py [--update]
"""
import ast
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "weave.md")
BEGIN, END = "<!-- constructs: tests/weave/check_constructs.py --update -->\n", "<!-- end of constructs -->\n"
FOLDERS = [("corpus", "PyTorch"), ("keras", "Keras, TensorFlow"), ("refused", "refused")]


def first_line(path):
    with open(path) as file:
        text = ast.get_docstring(ast.parse(file.read())) or ""
    return " ".join(text.split("\n\n")[0].split())


def rows():
    found = []
    for folder, framework in FOLDERS:
        for path in sorted(glob.glob(os.path.join(HERE, folder, "*.py"))):
            says = first_line(path)
            if not says:
                sys.exit("%s says in no documentation string what it covers" % os.path.relpath(path, HERE))
            found.append("| %s | `%s` | %s |" % (framework, os.path.basename(path)[:-3], says.replace("|", "\\|")))
    return found


def main():
    with open(DOCUMENT) as file:
        text = file.read()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    table = "| | script | what it covers |\n|---|---|---|\n" + "".join(row + "\n" for row in rows())
    wanted = head + BEGIN + table + END + tail
    if "--update" in sys.argv[1:]:
        with open(DOCUMENT, "w") as file:
            file.write(wanted)
    elif text != wanted:
        sys.exit("the table of constructs in docs/weave.md is not that of the corpus; run tests/weave/check_constructs.py --update")


if __name__ == "__main__":
    main()
