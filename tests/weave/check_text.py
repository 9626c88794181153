#!/usr/bin/env python3
"""Weaves scripts and checks the text, without running it: TensorFlow and Horovod need not be installed.

    check_text.py TELAR [--target TARGET] SCRIPT.py...

For every target, or that one, for which a script can be woven: the output parses; weaving it again changes nothing; --diff,
applied to the script, produces the output; and the output equals golden/TARGET/SCRIPT.py next to the scripts.
For a project (a script in a folder of projects/) the golden file is the diff. On a terminal the diff of the
first script is coloured.

With UPDATE=1 in the environment the golden files are rewritten. Review them before you commit them.
"""
import ast
import os
import pty
import re
import subprocess
import sys
import tempfile

from woven import golden, is_project, name_of, options_of, text_complaints, weave

TARGETS = ("ddp", "horovod", "tf-distribute")


def check(telar, script, target, folder):
    with open(script, newline="") as file:
        source = file.read()
    asked = [telar, "weave", "--target", target] + options_of(source)
    answer, woven = weave(asked, script, folder)
    if answer.returncode == 2:  # the target is for another framework, or does not support an option
        return None
    ending = ""
    if answer.returncode == 3:
        text = answer.stderr[answer.stderr.index(os.path.dirname(script)) + len(os.path.dirname(script)) + 1:]
        ending = ".refused"
    elif answer.returncode != 0:
        return ["telar weave: %d: %s" % (answer.returncode, answer.stderr)]
    elif is_project(script):
        text = subprocess.run(asked + ["--diff", "--project", os.path.dirname(script), script],
                              capture_output=True, text=True).stdout
        ending = ".diff"
    else:
        with open(woven, newline="") as file:
            text = file.read()
        ast.parse(text)
    complaints = []
    expected = golden(script, target, ending)
    if os.environ.get("UPDATE"):
        os.makedirs(os.path.dirname(expected), exist_ok=True)
        with open(expected, "w", newline="") as file:
            file.write(text)
    if not os.path.exists(expected):
        complaints.append("missing golden file: " + expected)
    elif open(expected, newline="").read() != text:
        complaints.append("the text differs from %s; UPDATE=1 rewrites it" % expected)
    if answer.returncode == 0:
        complaints += text_complaints(telar, asked, script, woven, folder)
    return complaints


def shown_on_a_terminal(command):
    terminal, end = pty.openpty()
    process = subprocess.Popen(command, stdout=end)
    os.close(end)
    text = b""
    try:
        while part := os.read(terminal, 65536):
            text += part
    except OSError:  # Linux reports the end of the output this way
        pass
    os.close(terminal)
    process.wait()
    return text.decode().replace("\r\n", "\n")


def complaints_of_colours(telar, script):
    """Checks that --diff is coloured on a terminal and otherwise the same."""
    command = [telar, "weave", "--diff", script]
    coloured = shown_on_a_terminal(command)
    plain = subprocess.run(command, capture_output=True, text=True).stdout
    complaints = []
    if re.sub(r"\x1b\[\d*m", "", coloured) != plain:
        complaints.append("on a terminal --diff shows another text")
    if "\n\x1b[32m+" not in coloured or "\n\x1b[31m-" not in coloured or "\x1b" in plain:
        complaints.append("--diff is not green and red on a terminal, and plain elsewhere")
    return complaints


def main():
    telar, given, targets = os.path.abspath(sys.argv[1]), sys.argv[2:], TARGETS
    if given[0] == "--target":
        targets, given = (given[1],), given[2:]
    scripts = [os.path.abspath(one) for one in given]
    count = 1
    complaints = complaints_of_colours(telar, scripts[0]) if targets == TARGETS else []
    for complaint in complaints:
        print("FAILED %s: %s" % (name_of(scripts[0]), complaint))
    failed = int(bool(complaints))
    for script in scripts:
        for target in targets:
            with tempfile.TemporaryDirectory() as folder:
                complaints = check(telar, script, target, folder)
            if complaints is None:
                continue
            count += 1
            failed += bool(complaints)
            for complaint in complaints:
                print("FAILED %s for %s: %s" % (name_of(script), target, complaint))
    print("%d of %d texts passed" % (count - failed, count))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
