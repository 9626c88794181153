"""Compares the samples of each loop over a loader."""
from collections import Counter

from .rows import DIFFERS, EXCLUDED, NOTHING, OK, Row, plural


ONLY_NUMBER = "all components of the samples are changed at random, so only their number was compared"


def by_key(data):
    return {(one["loader"], one["number"]): one for one in data["passes"]}


def trained(passes):
    return any(one["trained"] for one in passes)


def groups(ranks):
    """The passes of all ranks with the same number, and whether they train."""
    tables = [by_key(one) for one in ranks]
    keys = sorted(set().union(*tables))
    return [(key, [table.get(key) for table in tables]) for key in keys]


def samples(ranks, single, plan, origin):
    """In each training epoch the ranks use every sample once."""
    natural = by_key(single)
    if ranks[0]["unseen"]:
        return Row("samples", EXCLUDED, ranks[0]["unseen"])
    notes, seen = [], 0
    previous = {}
    wrong = fault_of_parts(ranks)
    if wrong:
        return Row("samples", DIFFERS, wrong)
    for key, passes in groups(ranks):
        known = [one for one in passes if one is not None]
        if not trained(known):
            continue
        where = "pass %d of the loop at %s" % (key[1] + 1, origin.of(known[0]["place"]))
        if len(known) < len(ranks):
            return Row("samples", DIFFERS, where + " is not made by all ranks")
        if len({one["used"] for one in known}) > 1:
            return Row("samples", DIFFERS, "%s has %s batches on the ranks, so one waits for the other" % (
                where, " and ".join(str(one["used"]) for one in known)))
        seen += 1
        if key not in natural and not single["early_end"]:
            return Row("samples", DIFFERS, where + " is not made by the sequential program")
        wrong = fault(known, natural.get(key), plan, notes)
        wrong = wrong or order_fault(known, natural, key, previous, plan)
        if wrong:
            return Row("samples", DIFFERS, "%s: %s" % (where, wrong))
    if not seen and ranks[0]["parts"]:
        return Row("samples", OK, "each is on one rank, in %s that the ranks divide" % plural(
            len({(one["place"], one["whole"]) for one in ranks[0]["parts"]}), "tensor"))
    if not seen:
        return Row("samples", DIFFERS, "no loop over a loader or dataset trains")
    if single["early_end"] and plan["epochs"] != "divide":
        return Row("samples", DIFFERS, "the woven program does not make %s" % single["early_end"])
    if ONLY_NUMBER in notes:
        return Row("samples", EXCLUDED, ONLY_NUMBER)
    text = "every sample once%s in each of %s" % (" over the ranks" * (len(ranks) > 1), plural(seen, "training pass"))
    if plan["epochs"] == "divide":
        text = "every sample once on each rank in each of %s" % plural(seen, "training pass")
    return Row("samples", OK, text, sorted(set(notes)))


def fault_of_parts(ranks):
    """What is wrong with the parts of tensors that the ranks take; empty if nothing is."""
    for parts in zip(*[one["parts"] for one in ranks]):
        if len({one["whole"] for one in parts}) > 1:
            return "the ranks divide a tensor that is not the same on all of them"
        if sorted(one["part"] % one["parts"] for one in parts) != list(range(parts[0]["parts"])):
            return "the ranks do not take each part of a tensor once"
    if len({len(one["parts"]) for one in ranks}) > 1:
        return "the ranks divide different numbers of tensors"
    return ""


def fault(passes, natural, plan, notes):
    """What is wrong with the samples of one training pass; empty if nothing is."""
    if passes[0]["stream"]:
        rows = [one["rows"] for one in passes]
        common = set(rows[0]).intersection(*rows[1:])
        if common and rows[0]:
            return "every rank uses %s of the stream, which one should use" % plural(len(common), "sample")
        notes.append("samples of a stream were compared by their values")
        return ""
    drawn = [one["samples"] for one in passes]
    whole = natural["samples"] if natural else None
    if passes[0].get("by_content"):
        return fault_by_content(passes, natural, plan, notes)
    if plan["epochs"] == "divide":
        if whole is not None and any(sorted(one) != sorted(whole) for one in drawn):
            return "a rank does not draw all samples"
        return "two ranks draw them in the same order" if drawn[0] == drawn[1] else ""
    together = [index for one in drawn for index in one]
    if any(one["replace"] for one in passes) or (whole is not None and len(set(whole)) < len(whole)):
        notes.append("samples are drawn with replacement, so only their number was compared")
        if whole is not None and abs(len(together) - len(whole)) >= len(passes):
            return "the ranks draw %d samples together, the sequential program %d" % (
                len(together), len(whole))
        return ""
    twice = len(together) - len(set(together))
    if twice >= len(passes):
        return "%d of %d samples are used more than once in an epoch" % (twice, len(set(together)))
    if twice:
        notes.append("%s used twice, so that all ranks have equally many" % (
            "1 sample is" if twice == 1 else "%d samples are" % twice))
    if whole is None:
        return ""
    foreign = set(together) - set(whole)
    if foreign and not passes[0]["drop_last"]:
        return "%d samples are not among the sequential program's" % len(foreign)
    missing = len(set(whole) - set(together))
    allowed = len(passes) * passes[0]["batch_size"] + len(passes) if passes[0]["drop_last"] else 0
    if missing > allowed:
        return "%d of %d samples are used by no rank" % (missing, len(set(whole)))
    return ""


def fault_by_content(passes, natural, plan, notes):
    """What is wrong with samples that are known by their content: digests of their components."""
    drawn = [one["samples"] for one in passes]
    if plan["epochs"] != "divide" and drawn[0] and all(one == drawn[0] for one in drawn[1:]) and len(set(drawn[0])) > 1:
        return "all ranks draw the same samples in the same order"
    if natural is None or not all(one["complete"] for one in passes + [natural]):
        notes.append("the data have no end or are not read to it, so only the samples of the ranks were compared")
        return ""
    whole = natural["samples"]
    if plan["epochs"] == "divide":
        wrong = [one for one in drawn if len(one) != len(whole) or not same_contents(one, whole, 1, 0, notes)]
        return "a rank does not draw all samples" if wrong else ""
    together = [sample for one in drawn for sample in one]
    # What is lost if each rank leaves out its last batch, if that is smaller than the others.
    most = len(whole) % (len(passes) * max(one["batch_size"] for one in passes)) + len(passes)
    if len(together) - len(whole) >= len(passes) or len(whole) - len(together) > most:
        return "the ranks draw %d samples together, the sequential program %d" % (len(together), len(whole))
    if not same_contents(together, whole, len(passes), most, notes):
        return "the ranks draw other samples than the sequential program"
    return ""


def same_contents(mine, theirs, extra, missing, notes):
    """Whether samples are the same ones: fewer than `extra` more, and at most `missing` left out."""
    def excess(read):
        one, other = Counter(map(read, mine)), Counter(map(read, theirs))
        return one - other, other - one, other

    more, fewer, known = excess(tuple)
    if sum(more.values()) < extra and sum(fewer.values()) <= missing:
        left_out = sum(fewer.values())
        if left_out:
            notes.append("%s left out, so that all ranks have equally many" % (
                "1 sample is" if left_out == 1 else "%d samples are" % left_out))
        return True
    # What is not changed at random is there as often as in the sequential program.
    if sum(count for sample, count in more.items() if sample in known) >= extra:
        return False
    # Samples that are changed at random still have their labels.
    components = min(len(one) for one in mine + theirs)
    for at in reversed(range(components)):
        more, fewer, known = excess(lambda sample, at=at: sample[at])
        if len(known) < 2:
            continue  # alike in all samples, so it tells nothing
        if sum(more.values()) < extra and sum(fewer.values()) <= missing:
            notes.append("samples are changed at random, so only one of their components was compared")
            return True
    notes.append(ONLY_NUMBER)
    return True


def order_fault(passes, natural, key, previous, plan):
    """Whether the order is as the sequential program's: drawn anew for each epoch, or fixed."""
    mine, theirs = passes[0]["samples"], natural.get(key)
    if theirs is None or len(mine) < 8:
        return ""
    before = previous.get(key[0])
    previous[key[0]] = (mine, theirs["samples"])
    if passes[0]["in_order"] and not theirs["in_order"]:
        return "the sequential program shuffles its samples, but the ranks do not"
    if before and before[1] != theirs["samples"] and before[0] == mine:
        return "each epoch has the same order of samples (without set_epoch)"
    return ""


def batches(ranks, single, plan, origin):
    """Each rank's batch is the script's, or its share of it."""
    natural = by_key(single)
    wanted = 1 if plan["global_batch"] == "grow" else plan["processes"]
    compared = 0
    for key, passes in groups(ranks):
        one, other = passes[0], natural.get(key)
        if one is None or other is None or not trained([two for two in passes if two]):
            continue
        compared += 1
        if one["batch_size"] * wanted != other["batch_size"] and one["used"] > 1:
            sizes = (one["batch_size"], other["batch_size"], origin.of(one["place"]))
            return Row("batches", DIFFERS, "each rank has batches of %d samples, the script %d (%s)" % sizes)
    if not compared:
        return Row("batches", NOTHING, "no training pass is common")
    return Row("batches", OK, "each rank has the script's batch" if wanted == 1 else
               "the ranks divide the script's batch")


def evaluation(ranks, single, origin):
    """Loops that do not train see the sequential program's samples: on every rank, or divided among them."""
    natural = by_key(single)
    seen, divided = 0, 0
    for key, passes in groups(ranks):
        known = [one for one in passes if one is not None]
        theirs = natural.get(key)
        if trained(known) or theirs is None or theirs["stream"] or any(one["look"] for one in known):
            continue
        if not all(one.get("complete", True) for one in known + [theirs]):
            continue
        seen += 1
        whole = sorted(theirs["samples"])
        if all(sorted(one["samples"]) == whole for one in known):
            continue
        divided += 1
        together = Counter(index for one in known for index in one["samples"])
        extra, missing = together - Counter(whole), Counter(whole) - together
        if missing or sum(extra.values()) >= len(ranks) or not set(extra) <= set(whole):
            counts = " and ".join(str(len(one["samples"])) for one in known)
            text = "the ranks evaluate %s samples at %s, the sequential program %d"
            return Row("evaluation", DIFFERS, text % (counts, origin.of(known[0]["place"]), len(whole)))
    if not seen:
        return Row("evaluation", NOTHING, "no loop over a loader or dataset evaluates")
    text = "the sequential samples, in each of %s" % plural(seen, "pass")
    return Row("evaluation", OK, text, ["%s divided among the ranks" % (
        "1 of them is" if divided == 1 else "%d of them are" % divided)] if divided else [])
