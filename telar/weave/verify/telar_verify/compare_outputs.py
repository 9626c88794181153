"""Compares what the programs print, and the files that they write."""
import os
import re

from .rows import DIFFERS, EXCLUDED, NOTHING, OK, Row, listed, plural

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|\bnan\b|\binf\b")
TIME = re.compile(r"\d\d:\d\d:\d\d|\bit/s\b|s/it\b")
GRAPH = re.compile(r", (?:grad_fn=<\w+>|requires_grad=True)")  # of a printed loss, which Telar's steps do not have
EPOCH = re.compile(r"^Epoch \d+/\d+$")  # by Keras
TOLERANCE = 2e-3


class Line:
    """A printed line, where it was printed, and whether within a loop that trains."""

    def __init__(self, text, place, training):
        self.text, self.place, self.training = text, place, training


def printed_lines(data, divided=False):
    """`divided`: the epochs are divided, so that Keras shows the means of other batches."""
    training = {(one["loader"], one["number"]) for one in data["passes"] if one["trained"]}
    lines, text, place, within = [], "", None, False
    for piece, where, passes in data["texts"]:
        for part in re.split(r"(\n)", piece):
            if part == "\n":
                lines.append(Line(text, place or where, within))
                text, place, within = "", None, False
            elif part:
                text += part
                place = place or where
                within = within or any(tuple(one) in training for one in passes)
    if text:
        lines.append(Line(text, place, within))
    return [line for line in (without_progress(lines, divided) if data["by_keras"] else lines) if line.text.strip()]


PROGRESS = re.compile(r"[\x08\r]|\x1b\[|\[=*[>.]*\]|\u2501|^\s*\d+/(\d+|Unknown)\b")
FIGURE = re.compile(r"([A-Za-z_]\w*): (-?\d\S*)")


def without_progress(lines, divided):
    """The lines without the progress bars of Keras, whose number and times vary. Of the bars that follow each
    other, the last one's figures stay."""
    kept, bar = [], None
    for line in lines + [Line("", None, False)]:
        if divided and EPOCH.match(line.text):
            continue
        if PROGRESS.search(line.text):
            bar = line
            continue
        if bar is not None:
            figures = FIGURE.findall(re.split(r"[\x08\r]", bar.text.rstrip("\x08\r "))[-1])
            text = " ".join("%s: %s" % pair for pair in figures if pair[0] != "ETA")
            kept.append(Line(text, bar.place, divided))
        kept.append(line)
        bar = None
    return kept[:-1]


def same_number(one, other):
    a, b = float(one), float(other)
    if a != a or b != b:
        return a != a and b != b
    unit = 10.0 ** -len(one.partition(".")[2].partition("e")[0]) if "e" not in one else 0.0
    return a == b or abs(a - b) <= max(TOLERANCE * max(abs(a), abs(b)), 1.01 * unit if "." in one else 0.0)


def is_rate(number, rates):
    return any(same_number(number, "%.12g" % one) for one in rates)


def compare_line(mine, theirs, rates):
    """"" if equal; "words" or "numbers". A printed learning rate is that of each program: `rates`."""
    if NUMBER.sub("#", mine) != NUMBER.sub("#", theirs):
        return "words"
    if TIME.search(mine):
        return ""
    pairs = zip(NUMBER.findall(mine), NUMBER.findall(theirs))
    equal = all(same_number(a, b) or (is_rate(a, rates[0]) and is_rate(b, rates[1])) for a, b in pairs)
    return "" if equal else "numbers"


def printed(ranks, single, noisy, plan, origin):
    """Rank 0 prints what the sequential program prints; the others print nothing."""
    for rank, one in enumerate(ranks[1:], 1):
        lines = printed_lines(one)
        if lines:
            return Row("printed", DIFFERS, "rank %d prints too, at %s: %s" % (
                rank, origin.of(lines[0].place), lines[0].text.strip()[:60]))
    divided = plan["epochs"] == "divide"
    mine, theirs = printed_lines(ranks[0], divided), printed_lines(single, divided)
    if single["early_end"]:
        mine = mine[:len(theirs)]
    shares, left, numbers = [], [], 0
    for own, other in zip(mine, theirs):
        expected = GRAPH.sub("", other.text) if plan["target"] == "telar" else other.text
        found = compare_line(own.text, expected, (ranks[0]["rates"], single["rates"]))
        numbers += len(NUMBER.findall(other.text))
        if found == "numbers" and other.training and plan["target"] != "telar":
            shares.append(other)
        elif found == "numbers" and plan["leaves_numbers"]:
            left.append(other)
        elif found == "numbers" and noisy:
            continue
        elif found:
            return Row("printed", DIFFERS, "at %s: %r, sequentially %r" % (
                origin.of(other.place, False), own.text.strip()[:70], other.text.strip()[:70]))
    if len(mine) != len(theirs):
        longer = mine if len(mine) > len(theirs) else theirs
        who = "the woven script" if longer is mine else "the sequential script"
        line = longer[min(len(mine), len(theirs))]
        return Row("printed", DIFFERS, "only %s prints %r (%s)" % (
            who, line.text.strip()[:60], origin.of(line.place, longer is mine)))
    if not theirs:
        return Row("printed", NOTHING, "nothing is printed")
    notes = []
    if shares:
        notes.append("%s within a training loop, of rank 0's samples: %s" % (
            plural(len(shares), "line"), listed(sorted({origin.of(one.place, False) for one in shares}))))
    if left:
        return Row("printed", EXCLUDED, "%s with other numbers, which --only-training may have left: %s" % (
            plural(len(left), "line"), listed(sorted({origin.of(one.place, False) for one in left}))), notes)
    if noisy:
        return Row("printed", EXCLUDED, "%s have equal words; their numbers depend on the gradients" %
                   plural(len(theirs), "line"), notes)
    return Row("printed", OK, "%s with %s" % (plural(len(theirs), "line"), plural(numbers, "number")), notes)


def general(path):
    """A path without numbers, as dates and process ids in the names of log files."""
    return re.sub(r"\d+", "#", path) if "events.out.tfevents" in path else path


def form(thing):
    """The keys and types of a saved value."""
    if isinstance(thing, dict):
        return {str(key): form(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [form(value) for value in thing]
    return tuple(thing.shape) if hasattr(thing, "shape") else type(thing).__name__


def first_difference(mine, theirs, within=""):
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in list(theirs) + list(mine):
            if key not in mine or key not in theirs:
                return "%s%s" % (within, key) + (" is missing" if key not in mine else " is new")
            found = first_difference(mine[key], theirs[key], within + key + ".")
            if found:
                return found
        return ""
    return "" if mine == theirs else "%s is %s, sequentially %s" % (within.rstrip(".") or "it", mine, theirs)


def load(path):
    import torch

    try:
        try:
            return torch.load(path, map_location="cpu", weights_only=False)
        except TypeError:  # before 1.13
            return torch.load(path, map_location="cpu")
    except Exception:  # a whole model, whose class only the script has; or not a file of torch
        return None


def other_values(mine, theirs, within=""):
    """The first tensor of floating-point numbers that has other values; empty if none has."""
    if isinstance(theirs, (list, tuple)):
        mine, theirs = dict(enumerate(mine)), dict(enumerate(theirs))
    if isinstance(theirs, dict):
        found = (other_values(mine[key], theirs[key], "%s%s." % (within, key)) for key in theirs)
        return next(filter(None, found), "")
    if not hasattr(theirs, "is_floating_point") or not theirs.is_floating_point() or not theirs.numel():
        return ""
    off, most = float((mine - theirs).abs().max()), float(theirs.abs().max())
    return "" if off <= TOLERANCE * most or off < 1e-7 else "%s has other values" % within.rstrip(".")


def files(ranks, single, folders, origin, with_values=False):
    """Each file is written by one rank, and has the sequential file's form, or also its values."""
    writers = {}
    for rank, one in enumerate(ranks):
        for path, place in one["writes"]:
            writers.setdefault(general(path), {}).setdefault(rank, place)
    for path, places in sorted(writers.items()):
        if len(places) > 1:
            return Row("files", DIFFERS, "%s is written by %s ranks" % (origin.within(path), len(places)),
                       ["at " + listed(sorted({origin.of(one) for one in places.values()}))])
    theirs = {general(path): place for path, place in single["writes"]}
    if not single["early_end"]:
        for path in sorted(set(theirs) ^ set(writers)):
            if path in theirs:
                return Row("files", DIFFERS, "%s is not written (sequentially at %s)" % (
                    origin.within(path), origin.of(theirs[path], False)))
            return Row("files", DIFFERS, "%s is written only by the woven script, at %s" % (
                origin.within(path), origin.of(list(writers[path].values())[0])))
    for path in sorted(set(theirs) & set(writers)):
        pair = [os.path.join(folder, path) for folder in folders]
        if not path.endswith((".pt", ".pth", ".ckpt", ".tar", ".bin")) or not all(map(os.path.isfile, pair)):
            continue
        woven, sequential = load(pair[0]), load(pair[1])
        if woven is None or sequential is None:
            continue
        found = first_difference(form(woven), form(sequential))
        if with_values and not found:
            found = other_values(woven, sequential)
        if found:
            return Row("files", DIFFERS, "%s: %s" % (origin.within(path), found),
                       ["written at " + origin.of(theirs[path], False)])
    if not writers:
        return Row("files", NOTHING, "no file is written")
    return Row("files", OK, "%s%s: %s" % (
        plural(len(writers), "file"), ", each by one rank" * (len(ranks) > 1), listed(sorted(origin.within(path) for path in writers))))
