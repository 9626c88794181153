"""Compares optimizer steps: parameters, averaged gradients, learning rates, random numbers."""
import numpy as np

from .rows import DIFFERS, EXCLUDED, NOTHING, OK, Row, listed, plural

TOLERANCE = 1e-5
CLOSURE_TOLERANCE = 1e-2  # of the change of a step whose line search amplifies rounding


def steps_of(data):
    return {(one["optimizer"], one["step"]): one for one in data["steps"]}


def parameters(ranks, origin):
    """After each step the parameters are equal on all ranks, bit by bit."""
    first = steps_of(ranks[0])
    if ranks[0]["unseen"]:
        return Row("parameters", EXCLUDED, ranks[0]["unseen"])
    counts = [len(one["steps"]) for one in ranks]
    if not first:
        return Row("parameters", DIFFERS, "no optimizer makes a step, so nothing is trained")
    if len(set(counts)) > 1:
        return Row("parameters", DIFFERS, "the ranks make different numbers of steps: %s" % listed(counts))
    names = {key[0]: step["names"] for key, step in first.items() if step["names"]}
    apart = sorted(key for key in first if starts_apart(ranks, key))
    for key in sorted(first, key=lambda key: (key[1], key[0])):
        for rank, other in enumerate(ranks[1:], 1):
            step = steps_of(other).get(key)
            if step is None:
                return Row("parameters", DIFFERS, "rank %d steps its optimizers in another order" % rank)
            if key in apart:
                continue
            for when, where in (("started", "before"), ("digests", "after")):
                pairs = list(zip(first[key][when], step[when]))
                different = [i for i, (one, two) in enumerate(pairs) if one != two]
                if not different and len(first[key][when]) == len(step[when]):
                    continue
                return Row("parameters", DIFFERS,
                           "%s step %d the parameters of rank %d are not those of rank 0: %s" %
                           (where, key[1] + 1, rank, listed(names[key[0]][i] for i in different)),
                           blame(ranks[0], first[key], different, when, origin))
    return Row("parameters", OK, "bit by bit on all ranks, before and after each of %s" %
               plural(len(first) - len(apart), "step"),
               ["in the first step they differ: Horovod sends those of rank 0 after the first batch"] if apart else [])


def starts_apart(ranks, key):
    """Whether the ranks make the first step of an optimizer with different parameters, which Horovod's callback for
    Keras makes equal afterwards."""
    steps = [steps_of(one) for one in ranks]
    following = (key[0], key[1] + 1)
    if key[1] > 0 or not ranks[0]["started_later"] or any(following not in one for one in steps):
        return False
    return (any(one[key]["started"] != steps[0][key]["started"] for one in steps)
            and all(one[following]["started"] == steps[0][following]["started"] for one in steps))


def blame(data, step, different, when, origin):
    lines = ["the step is at " + origin.of(step["place"])]
    places = sorted(set(data["bypassed"]), key=str)
    if places:
        lines = ["the model is called without its wrapper at %s, so nothing averages its gradients" %
                 listed(origin.of(one) for one in places)]
    elif when == "digests" and not any(step["wrapped"][i] for i in different) and data["wrapped"]:
        lines.append("no DistributedDataParallel has these parameters, so nothing averages their gradients")
    return lines


def ratio_of(mine, theirs):
    """(r, distance): mine is r × theirs, except for the distance, relative to the largest value."""
    pairs = [(np.zeros_like(b) if a is None else a, np.zeros_like(a) if b is None else b)
             for a, b in zip(mine, theirs) if not (a is None and b is None)]
    if any(a.shape != b.shape for a, b in pairs) or not pairs:
        return None
    if any((np.isfinite(a) != np.isfinite(b)).any() for a, b in pairs):
        return None
    whole = max(float(abs(b).max()) for _, b in pairs if b.size)
    square = sum(float((b.astype("float64") ** 2).sum()) for _, b in pairs)
    if square == 0:
        return (1.0, 0.0) if all(float(abs(a).max()) == 0 for a, _ in pairs) else None
    ratio = sum(float((a.astype("float64") * b).sum()) for a, b in pairs) / square
    return ratio, pairs, whole


def distance(pairs, whole, ratio):
    """The largest difference, relative to the parameter's largest gradient (or a tenth of the model's)."""
    most = 0.0
    for a, b in pairs:
        if b.size:
            scale = max(float(abs(b).max()), 0.1 * whole)
            most = max(most, float(abs(a - ratio * b).max()) / (ratio * scale if ratio else scale))
    return most


def change_of_closure(mine, step, key):
    """How a step that calls a closure changes the parameters: the largest difference, relative to the largest
    change. None if that is not known."""
    before = mine[key]["started_values"] if key[1] == 0 else mine[key[0], key[1] - 1].get("values")
    if not before or not step.get("values") or not mine[key].get("values"):
        return None
    before, after, theirs = ([one.double().numpy() for one in values]
                             for values in (before, mine[key]["values"], step["values"]))
    change = max(float(abs(b - a).max()) for a, b in zip(before, after) if a.size)
    off = max(float(abs(b - c).max()) for b, c in zip(after, theirs) if b.size)
    return off / change if change else off


def gradients(ranks, single, plan, origin, rounding=1):
    """Each averaged gradient is that of the sequential program on the samples of all ranks. `rounding`: by what the
    tolerance is multiplied."""
    tolerance = TOLERANCE * rounding
    mine, theirs = steps_of(ranks[0]), steps_of(single)
    if ranks[0]["unseen"]:
        return Row("gradients", EXCLUDED, ranks[0]["unseen"])
    excluded = dict(single["excluded"], **ranks[0]["excluded"])
    # In half precision, an optimizer that scales the loss skips steps whose gradients overflow.
    may_skip = any("half precision" in reason for reason in excluded)
    if len(mine) != len(theirs) and not single["early_end"] and plan["epochs"] != "divide" and not may_skip:
        return Row("gradients", DIFFERS, "the ranks make %s, the sequential program %d" % (
            plural(len(mine), "step"), len(theirs)))
    worst, compared, closures, alike = 0.0, 0, 0, False
    summed = set()
    for key, step in sorted(theirs.items(), key=lambda item: (item[0][1], item[0][0])):
        if key not in mine or starts_apart(ranks, key):
            continue
        if step["gradients"] is None or mine[key]["gradients"] is None:
            off = change_of_closure(mine, step, key) if step["closure"] else None
            if off is not None and off > CLOSURE_TOLERANCE and key[1] == 0 and not excluded:
                return Row("gradients", DIFFERS, "step 1, at %s, whose optimizer calls a closure, changes the "
                           "parameters otherwise than sequentially" % origin.of(step["place"], woven=False))
            closures += step["closure"]
            alike = alike or (off is not None and key[1] == 0)
            continue
        found = ratio_of(mine[key]["gradients"], step["gradients"])
        if found is not None and len(found) == 2:
            compared += 1
            continue
        if found is not None:
            ratio, pairs, whole = found
            off = distance(pairs, whole, 1.0)
            # Rounding has no direction: it leaves the ratio as it is.
            if off <= tolerance or (off <= 10 * tolerance and abs(ratio - 1) <= 0.1 * tolerance):
                worst, compared = max(worst, off), compared + 1
                continue
            part = 1 / plan["processes"]
            if plan["processes"] > 1 and abs(ratio - part) < 1e-3 * part and distance(pairs, whole, part) <= 10 * tolerance:
                summed.add(key)
                compared += 1
                continue
        if excluded:
            break
        return Row("gradients", DIFFERS, "step %d, at %s: %s" % (
            key[1] + 1, origin.of(step["place"], woven=False), described(found)))
    if excluded:
        return Row("gradients", EXCLUDED, "; ".join(
            "%s (%s)" % (reason, origin.of(place, False)) for reason, place in sorted(excluded.items())))
    if not compared:
        return Row("gradients", EXCLUDED if closures else NOTHING,
                   "the optimizer calls a closure, several times a step" if closures else "no step is common",
                   ["its first step changes the parameters as sequentially"] if alike else [])
    text = "%s like the sequential ones (largest difference %.0e)" % (plural(compared, "step"), worst)
    if summed:
        text = "%s: the loss is a sum over the batch, so the average is 1/%d of the sequential gradient" % (
            plural(len(summed), "step"), plan["processes"])
        if plan["global_batch"] == "keep":
            step = theirs[min(summed, key=lambda key: key[1])]
            return Row("gradients", DIFFERS, text, [
                "the step is at %s; with --global-batch keep the learning rate does not make up for it" %
                origin.of(step["place"], False)])
    anew = single["started_anew"]
    return Row("gradients", OK, text, ["%s with other random weights than sequentially; both were given the "
                                       "woven ones" % ("1 model starts" if anew == 1 else "%d models start" % anew)
                                       ] if anew else [])


def differs_from_start(ranks, single, plan, origin):
    """Whether the first step of an optimizer already differs, as it does if the loss is no mean over the samples.
    What parts on the ranks later, from step to step, is a fault."""
    if any(one["clipped"] for one in [single] + ranks):
        return False
    first = [dict(one, steps=[step for step in one["steps"] if step["step"] == 0]) for one in ranks + [single]]
    return gradients(first[:-1], first[-1], plan, origin).verdict == DIFFERS


def mean_of(single, parts):
    """The sequential program's observations with the mean gradients of `parts`; None if they have other steps."""
    steps = [steps_of(one) for one in parts or []]
    if not steps or any(set(one) != set(steps[0]) for one in steps):
        return None
    averaged = []
    for step in single["steps"]:
        key = (step["optimizer"], step["step"])
        if key not in steps[0]:
            return None
        columns = list(zip(*[one[key]["gradients"] or [] for one in steps]))
        if any(value is None for column in columns for value in column) or not columns:
            return None
        averaged.append(dict(step, gradients=[sum(column) / len(parts) for column in columns]))
    return dict(single, steps=averaged)


def described(found):
    if found is None:
        return "other parameters have gradients than in the sequential program"
    ratio, pairs, whole = found
    if distance(pairs, whole, ratio) <= 1e-3:
        return "the averaged gradient is %.4g times the sequential one" % ratio
    return "the averaged gradient differs from the sequential one by %.1e of its largest value" % distance(
        pairs, whole, 1.0)


def rates(ranks, single, plan, origin):
    """The learning rate is the sequential program's, times the number of processes if the batch grows."""
    mine, theirs = steps_of(ranks[0]), steps_of(single)
    expected = plan["processes"] if plan["global_batch"] == "grow" else 1
    compared = 0
    for key, step in sorted(theirs.items(), key=lambda item: (item[0][1], item[0][0])):
        if key not in mine or step["kind"].endswith("LBFGS"):
            continue
        for rate, own in zip(step["lr"], mine[key]["lr"]):
            if rate is None or own is None or rate == 0:
                continue
            compared += 1
            ratio = own / rate
            if plan["warmup"] and 1 - 1e-6 <= ratio <= expected + 1e-6:
                continue
            if abs(ratio - expected) > 1e-6 * expected:
                where = "step %d, at %s" % (key[1] + 1, origin.of(step["place"], False))
                return Row("learning rate", DIFFERS, "%s: %.6g times the sequential one instead of %d" % (
                    where, ratio, expected))
    if not compared:
        return Row("learning rate", NOTHING, "the optimizer has none that is scaled")
    return Row("learning rate", OK, "%s the sequential one in each step" % (
        "up to %d times" % expected if plan["warmup"] else "%d times" % expected if expected > 1 else "is"))


def random_numbers(ranks, origin):
    """What is drawn in a training step, or for a sample of it, differs between the ranks."""
    used = set()
    for key, step in steps_of(ranks[0]).items():
        other = steps_of(ranks[1]).get(key)
        for name in step["drawn"] if other else ():
            used.add(name)
            if name in other["drawn"] and step["states"].get(name) == other["states"].get(name):
                return Row("random numbers", DIFFERS,
                           "the ranks draw the same numbers (%s) in step %d" % (name, key[1] + 1),
                           ["the step is at " + origin.of(step["place"])])
    others = {(one["loader"], one["number"]): one for one in ranks[1]["passes"]}
    for one in ranks[0]["passes"]:
        other = others.get((one["loader"], one["number"]))
        if not one["trained"] or other is None:
            continue
        for (drawn, before), (drawn_too, before_too) in zip(one["fetch"], other["fetch"]):
            for name in drawn:
                used.add(name)
                if name in drawn_too and before.get(name) == before_too.get(name):
                    return Row("random numbers", DIFFERS,
                               "the ranks change their samples by the same random numbers (%s)" % name,
                               ["the samples are those of the loop at " + origin.of(one["place"])])
    if not used:
        return Row("random numbers", NOTHING, "none are drawn in a training step")
    return Row("random numbers", OK, "those of training steps (%s) differ between the ranks" %
               listed(sorted(used)))
