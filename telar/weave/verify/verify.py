"""Compares a sequential script with its woven form: verify.py PLAN.json. Part of `telar weave --verify`."""
import json
import os
import signal
import sys
import tempfile
import time

from telar_verify import compare_outputs, compare_samples, compare_steps, compare_telar
from telar_verify.lines import Origin
from telar_verify.processes import IDLE, Processes, wait
from telar_verify.rows import DIFFERS, EXCLUDED, FAKE, OK, Row, plural
from telar_verify.starters import Starters
from telar_verify.workspace import Workspace

WRONG, NOT_POSSIBLE = 1, 2


def how_it_ended(one, plan, origin, woven):
    """Why a process did not succeed; empty if it did."""
    if one.waited:
        limits = "%d s (--deadline) and %d s without computing" % (plan["seconds"], IDLE)
        return "has not ended and waits at %s; the limits are %s" % (origin.of(one.waits_at(), woven), limits)
    data = one.data()
    if data is not None and data["reason"]:
        return data["reason"]
    code = one.process.returncode
    if one.killed:
        return "had not ended when another rank failed"
    if code != 0:
        way = "signal %d" % -code if code < 0 else "exit code %d" % code
        return "ends with %s: %s" % (way, one.last_error())
    return "" if data is not None else "ends without a result: " + one.last_error()


def processes_row(ranks, plan, origin):
    ends = [how_it_ended(one, plan, origin, True) for one in ranks]
    failed = [(rank, end) for rank, end in enumerate(ends) if end]
    if not failed:
        text = "1 ends" if plan["target"] == "telar" else "1 with %d logical devices ends" % plan["processes"]
        return Row("processes", OK, "all %d end" % len(ranks) if len(ranks) > 1 else text)
    texts = ["rank %d: %s" % (rank, mapped(end, origin)) for rank, end in failed]
    return Row("processes", DIFFERS, texts[0], texts[1:])


def mapped(text, origin):
    """The line in an exception's text, of the user's program instead of the woven one."""
    head, found, tail = text.rpartition(" at line ")
    line, of, path = tail.partition(" of ")
    if not found or not of or not line.isdigit():
        return text
    path, semicolon, advice = path.partition("; ")
    return "%s, at %s%s" % (head, origin.of((path, int(line))), semicolon + advice)


def fakes_row(processes):
    """What had random data in its place in any process; None if nothing had."""
    parts, stand_ins = {}, set()
    for one in processes:
        stand_ins.update(one["stand_ins"])
        for name, found in one["fakes"].items():
            parts.setdefault(name, []).extend(part for part in found if part not in parts.get(name, []))
    if not parts and not stand_ins:
        return None
    texts = [name + (" (%s)" % ", ".join(sorted(found)) if found else "") for name, found in sorted(parts.items())]
    details = ["in place of the real ones, which are missing"] if texts else []
    details += ["%s is not installed: a stand-in with its usual classes was used" % one for one in sorted(stand_ins)]
    return Row("data", FAKE, ", ".join(texts) or "nothing", details)


def show(rows, plan, seconds, neutral):
    print("%s, %s, %s, %s of each epoch" % (
        plan["title"], plan["target"], plural(plan["processes"], "process"), plural(plan["steps"], "step")))
    for row in rows:
        print("\n".join(row.lines()))
    for line in neutral_lines(neutral, plan["target"] == "telar"):
        print("  " + line)
    wrong = [row.name for row in rows if row.verdict == DIFFERS]
    left = [row.name for row in rows if row.verdict == EXCLUDED]
    verdict = "the woven script does what the sequential one does"
    if any(row.verdict == FAKE for row in rows):
        verdict += ", on random data"
    if left:
        verdict += "; not compared: " + ", ".join(left)
    if wrong:
        verdict = "the woven script is WRONG: " + ", ".join(wrong)
    print("%s (%.0f s)" % (verdict, seconds), flush=True)
    return WRONG if wrong else 0


def neutral_lines(neutral, by_telar):
    texts = {
        "dropout": "Both programs ran without dropout, whose masks %s." % (
            "are Telar's own" if by_telar else "differ between the ranks"),
        "batch norm": "Both programs ran with batch norm that normalises each sample by itself: a rank has "
                      "other statistics than the whole batch.",
        "torch.compile": "Both programs ran without torch.compile.",
    }
    cut = "Both programs were ended after %s, because no loader tells what an epoch is."
    return [texts.get(one) or cut % plural(one, "step") for one in sorted(neutral, key=str)]


def compare(plan, ranks, single, folders, origin, each_batch):
    """The rows of the table. `each_batch()`: the gradients of the sequential program on the batches of each rank by
    themselves, or None. If it is None, `single` has the means of these gradients."""
    gradients = compare_steps.gradients(ranks, single, plan, origin)
    noisy = gradients.verdict == EXCLUDED or each_batch is None
    if each_batch is None:
        gradients.details.append("they are the means of the ranks' batches, each by itself: the script does not take "
                                 "a batch of another size")
    grows = plan["global_batch"] == "grow"
    if gradients.verdict == DIFFERS and grows and not noisy and compare_steps.differs_from_start(ranks, single, plan, origin):
        mean = compare_steps.mean_of(single, each_batch())
        by_batch = compare_steps.gradients(ranks, mean, plan, origin) if mean else gradients
        if by_batch.verdict == OK:
            noisy = True
            why = "the loss is no mean over the samples of a batch"
            if any(step["drawn"] for step in single["steps"]):
                why += ", or its random numbers are not in the order of the samples"
            by_batch.details.append("they are the means of the ranks' batches, each by itself: " + why)
            gradients = by_batch
    return [
        compare_steps.parameters(ranks, origin),
        gradients,
        compare_steps.rates(ranks, single, plan, origin),
        compare_samples.samples(ranks, single, plan, origin),
        compare_samples.batches(ranks, single, plan, origin),
        compare_samples.evaluation(ranks, single, origin),
        compare_steps.random_numbers(ranks, origin),
        compare_outputs.files(ranks, single, folders, origin),
        compare_outputs.printed(ranks, single, noisy, plan, origin),
    ]


def verify(plan, folder, processes):
    """Prints the comparison. Returns the exit code. `folder`: an empty one for all that the programs write."""
    begin = time.time()
    spaces = {}
    for which in ("sequential", "woven"):
        os.mkdir(os.path.join(folder, which))
        spaces[which] = Workspace(os.path.join(folder, which), plan["current"], plan["base"])
    pairs = {}
    prefix = os.path.relpath(spaces["woven"].program, spaces["woven"].folder).partition(os.sep)[2]
    for path, source in plan["woven"].items():
        spaces["woven"].replace(path, source)
        pairs[os.path.normpath(os.path.join(prefix, path))] = (os.path.join(plan["base"], path), source)
    origin = Origin(pairs, os.path.normpath(os.path.join(prefix, plan["script"])))
    ranks = processes.start_ranks(spaces["woven"])
    wait(ranks, plan["seconds"])
    ended = processes_row(ranks, plan, origin)
    if ended.verdict == DIFFERS:
        # A script that fails by itself is not a fault of its woven form.
        end = alone(plan, spaces, processes, origin)
        return sequential_fails(end) if end else show([ended], plan, time.time() - begin, ())
    sources = [(one.paths["result"], number) for one in ranks for number in range(len(one.data()["ranks"]))]
    sequential = processes.start(spaces["sequential"], replay=sources)
    wait([sequential], plan["seconds"])
    end = how_it_ended(sequential, plan, origin, False)
    if end and plan["target"] == "telar":
        return sequential_fails(end)
    data = [rank for one in ranks for rank in one.data()["ranks"]]
    folders = [spaces["woven"].folder, spaces["sequential"].folder]
    if end:
        # Perhaps it computes with the size of its own batches.
        parts = each_batch(plan, folder, processes, sources)
        single = compare_steps.mean_of(parts[0], parts) if parts else None
        if single is None:
            return sequential_fails(end)
        folders[1] = os.path.join(folder, "batches_0")
        rows = compare(plan, data, single, folders, origin, None)
    else:
        single = sequential.data()["ranks"][0]
        if plan["target"] == "telar":
            rows = compare_telar.rows(data[0], single, plan, folders, origin)
        else:
            rows = compare(plan, data, single, folders, origin, lambda: each_batch(plan, folder, processes, sources))
    neutral = set(single["neutral"]).union(*[one["neutral"] for one in data])
    if data[0]["cut"]:
        neutral.add(data[0]["cut"])
    fakes = fakes_row(data + [single])
    return show([fakes] * (fakes is not None) + [ended] + rows, plan, time.time() - begin, neutral)


def each_batch(plan, folder, processes, sources):
    """What the sequential program does with the batches of each rank by themselves; None if it fails."""
    found = []
    for rank, source in enumerate(sources):
        path = os.path.join(folder, "batches_%d" % rank)
        os.mkdir(path)
        space = Workspace(path, plan["current"], plan["base"])
        one = processes.start(space, replay=[source])
        wait([one], plan["seconds"])
        data = one.data()
        if one.waited or data is None or data["reason"]:
            return None
        found.append(data["ranks"][0])
    return found


def alone(plan, spaces, processes, origin):
    """How the sequential script fails by itself; empty if it does not."""
    one = processes.start(spaces["sequential"])
    wait([one], plan["seconds"])
    return how_it_ended(one, plan, origin, False)


def sequential_fails(end):
    print("the sequential script fails, so there is nothing to compare: " + end, file=sys.stderr)
    return NOT_POSSIBLE


def verify_with(starters, plan):
    with tempfile.TemporaryDirectory(prefix="telar-verify-") as folder:
        processes = Processes(plan, folder, starters)
        try:
            return verify(plan, folder, processes)
        finally:
            processes.end()


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    starters = Starters()
    try:
        return verify_with(starters, plan)
    except KeyboardInterrupt:
        return 128 + 2
    finally:
        starters.end()


if __name__ == "__main__":
    sys.exit(main())
