#!/usr/bin/env python3
"""Weaves the scripts of refused/: each must be refused, at the line and for the reason that a comment names.

    check_refused.py TELAR SCRIPT.py...

The line ends with the comment `# refused: WORDS`; the message must contain the words.
"""
import os
import subprocess
import sys

from woven import options_of

MARK = "# refused: "


def complaint(telar, script):
    """What is wrong with weave's answer; empty if nothing is."""
    with open(script) as file:
        source = file.read()
    marked = [(number, line.partition(MARK)[2]) for number, line in enumerate(source.splitlines(), 1) if MARK in line]
    if len(marked) != 1:
        return "it has %d lines with %r" % (len(marked), MARK)
    line, words = marked[0]
    answer = subprocess.run([telar, "weave"] + options_of(source) + [script], capture_output=True, text=True)
    message = answer.stderr.strip()
    if answer.returncode != 3 or ":%d: " % line not in message or words not in message:
        return "exit code %d: %s" % (answer.returncode, message)
    return ""


def main():
    telar, scripts = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = 0
    for script in scripts:
        found = complaint(telar, os.path.abspath(script))
        print("%-6s %s%s" % ("FAILED" if found else "ok", os.path.basename(script), ": " + found if found else ""))
        failed += bool(found)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
