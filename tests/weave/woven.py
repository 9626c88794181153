"""Shared by the checks of woven scripts: weaving a script or its project, and checks of every woven text."""
import filecmp
import os
import re
import shutil
import subprocess


def is_project(script):
    """Whether the script runs a project: it is in a folder of projects/."""
    return os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(script)))) == "projects"


def name_of(script):
    return (os.path.basename(os.path.dirname(os.path.abspath(script))) if is_project(script)
            else os.path.basename(script))


def golden(script, target, ending):
    """The path of the expected text, in a folder next to the scripts of the corpus."""
    corpus = os.path.dirname(os.path.abspath(script))
    if is_project(script):
        corpus = os.path.dirname(os.path.dirname(corpus))
    return os.path.join(corpus, "golden", target, name_of(script) + ending)


def weave(asked, script, folder):
    """Weaves with the command `asked`; returns the completed process and the path of the woven script."""
    script = os.path.abspath(script)
    if not is_project(script):
        woven = os.path.join(folder, "woven_" + os.path.basename(script))
        return subprocess.run(asked + [script, "-o", woven], capture_output=True, text=True), woven
    woven = os.path.join(folder, "woven_project")
    asked = asked + ["--project", os.path.dirname(script), script]
    return (subprocess.run(asked + ["-o", woven], capture_output=True, text=True),
            os.path.join(woven, os.path.basename(script)))


def options_of(source):
    return " ".join(re.findall(r"^# weave with: (.*)$", source, re.M)).split()


NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def last_figures(text):
    """The last printed line that has a number with decimals: the final loss or accuracy."""
    lines = [line for line in text.splitlines() if re.search(r"\d\.\d", line)]
    return lines[-1] if lines else ""


def noise_complaints(expected, printed):
    """Compares the last lines of two programs that cannot be equal: the words must be equal, and the numbers
    may differ by the effect of other noise, samples or batch statistics."""
    ends = [last_figures(expected), last_figures(printed)]
    words = [NUMBER.sub("#", end).split() for end in ends]
    figures = [[float(number) for number in NUMBER.findall(end) if "." in number] for end in ends]
    if words[0] == words[1] and all(abs(a - b) <= 0.15 * max(1.0, abs(a)) for a, b in zip(*figures)):
        return []
    return ["ends with %r, the original with %r" % (ends[1], ends[0])]


def text_complaints(telar, asked, script, woven, folder):
    """Checks that weaving twice changes nothing, and that --diff applied to the input produces the output."""
    complaints = []
    patched = os.path.join(folder, "patched")
    if is_project(script):
        project = os.path.dirname(os.path.abspath(script))
        again = subprocess.run([telar, "weave", "--diff", "--project", os.path.dirname(woven), woven],
                               capture_output=True, text=True)
        if again.stdout or again.returncode:
            complaints.append("weaving twice changes the project")
        diff = subprocess.run(asked + ["--diff", "--project", project, script],
                              capture_output=True, text=True).stdout
        shutil.copytree(project, patched, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["patch", "--silent", "-p0", "-d", patched], input=diff, text=True, check=False)
        for path, _, names in os.walk(patched):
            for name in names:
                other = os.path.join(os.path.dirname(woven),
                                     os.path.relpath(os.path.join(path, name), patched))
                if not os.path.exists(other) or not filecmp.cmp(os.path.join(path, name), other,
                                                                shallow=False):
                    complaints.append("--diff applied to the project does not give the woven %s" % name)
        return complaints
    with open(woven, newline="") as file:
        text = file.read()
    if subprocess.run([telar, "weave", woven], capture_output=True).stdout.decode() != text:
        complaints.append("weaving twice changes the script")
    diff = subprocess.run(asked + ["--diff", script], capture_output=True, text=True).stdout
    subprocess.run(["patch", "--silent", "-o", patched, script], input=diff, text=True, check=False)
    with open(patched, newline="") as file:
        if file.read() != text:
            complaints.append("--diff applied to the script is not the woven script")
    return complaints
