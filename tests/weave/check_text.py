#!/usr/bin/env python3
"""Weaves scripts and checks the text, for what cannot be run where TensorFlow and Horovod are not installed.

    check_text.py TELAR SCRIPT.py...

For every target that a script can be woven for: the output parses; weaving it again changes nothing; --diff applied to the
script gives it; and it is the text in golden/TARGET/SCRIPT.py beside
the scripts. With UPDATE=1 in the environment these texts are written anew, to be read before they are committed.
"""
import ast
import os
import re
import subprocess
import sys
import tempfile

TARGETS = ("ddp", "horovod", "tf-distribute")


def telar_weave(telar, *arguments):
    return subprocess.run([telar, "weave"] + list(arguments), capture_output=True, text=True)


def check(telar, script, target, folder):
    with open(script, newline="") as file:
        source = file.read()
    options = " ".join(re.findall(r"^# weave with: (.*)$", source, re.M)).split() + ["--target", target]
    answer = telar_weave(telar, *options, script)
    if answer.returncode == 2:  # the target is for another framework, or has no such option
        return None
    if answer.returncode == 3:
        text = answer.stderr
        text = text[text.index(os.path.basename(script)):]
    elif answer.returncode == 0:
        text = answer.stdout
    else:
        return ["telar weave: %d: %s" % (answer.returncode, answer.stderr)]
    complaints = []
    golden = os.path.join(os.path.dirname(script), "golden", target, os.path.basename(script) + (".refused" if answer.returncode else ""))
    if os.environ.get("UPDATE"):
        os.makedirs(os.path.dirname(golden), exist_ok=True)
        with open(golden, "w", newline="") as file:
            file.write(text)
    if not os.path.exists(golden):
        complaints.append("there is no " + golden)
    elif open(golden, newline="").read() != text:
        complaints.append("the text is not that of %s; UPDATE=1 writes it anew" % golden)
    if answer.returncode == 3:
        return complaints
    ast.parse(text)
    woven = os.path.join(folder, "woven.py")
    with open(woven, "w", newline="") as file:
        file.write(text)
    if telar_weave(telar, *options, woven).stdout != text:
        complaints.append("weaving twice changes the script")
    patched = os.path.join(folder, "patched.py")
    diff = telar_weave(telar, *options, "--diff", script).stdout
    subprocess.run(["patch", "--silent", "-o", patched, script], input=diff, text=True, check=False)
    if open(patched, newline="").read() != text:
        complaints.append("--diff applied to the script is not the woven script")
    return complaints


def main():
    telar, scripts = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = 0
    count = 0
    for script in scripts:
        for target in TARGETS:
            with tempfile.TemporaryDirectory() as folder:
                complaints = check(telar, script, target, folder)
            if complaints is None:
                continue
            count += 1
            failed += bool(complaints)
            for complaint in complaints:
                print("FAILED %s for %s: %s" % (os.path.basename(script), target, complaint))
    print("%d of %d texts are right" % (count - failed, count))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
