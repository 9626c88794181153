#!/usr/bin/env python3
"""Checks how `telar weave --verify` compares samples that are known by their content, and Keras' output.

PyTorch and TensorFlow are not needed: the records are written here, as a process would write them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../telar/weave/verify"))
from telar_verify import compare_outputs, compare_samples  # noqa: E402


class Places:
    """A stand-in of lines.Origin."""

    @staticmethod
    def of(place, woven=True):
        return str(place)


PLAN = {"epochs": "keep", "global_batch": "grow", "processes": 2}
WHOLE = [("x%d" % i, "y%d" % (i % 3)) for i in range(20)]


def one_pass(samples, number=0, **others):
    return dict({"loader": 0, "number": number, "trained": True, "place": "line 1", "stream": False, "rows": [],
                 "samples": samples, "used": 2, "batch_size": 2, "in_order": False, "by_content": True,
                 "complete": True, "replace": False, "drop_last": True, "look": False}, **others)


def process(*passes, parts=()):
    return {"passes": list(passes), "unseen": "", "early_end": "", "parts": list(parts)}


def samples_row(ranks, single):
    return compare_samples.samples([process(one) for one in ranks], process(single), PLAN, Places)


def check_samples():
    halves = [WHOLE[0::2], WHOLE[1::2]]
    row = samples_row(map(one_pass, halves), one_pass(WHOLE))
    assert row.verdict == "right" and not row.details, row.lines()
    row = samples_row([one_pass(WHOLE), one_pass(WHOLE[::-1])], one_pass(WHOLE))
    assert "the ranks draw 40 samples together, the sequential program 20" in row.text, row.text
    row = samples_row([one_pass(halves[0]), one_pass(halves[0])], one_pass(WHOLE))
    assert "all ranks draw the same samples in the same order" in row.text, row.text
    row = samples_row([one_pass(halves[0]), one_pass(halves[1][:-1])], one_pass(WHOLE))
    assert row.verdict == "right" and "1 sample is left out" in row.details[0], row.lines()
    row = samples_row([one_pass(halves[0][:3]), one_pass(halves[1][:3])], one_pass(WHOLE))
    assert row.verdict == "WRONG", row.lines()
    # Changed at random: the labels remain.
    changed = [[("r%d%d" % (rank, i), y) for i, (_, y) in enumerate(half)] for rank, half in enumerate(halves)]
    row = samples_row(map(one_pass, changed), one_pass(WHOLE))
    assert row.verdict == "right" and "only one of their components" in row.details[0], row.lines()
    # A wrong share, whose labels are as frequent as those of the right one.
    twice = WHOLE[:9] + WHOLE[:9]
    row = samples_row([one_pass(twice[:9]), one_pass(twice[9:][::-1])], one_pass(WHOLE[:18]))
    assert row.verdict == "WRONG" and "other samples" in row.text, row.lines()
    noise = [[("r%d%d" % (rank, i), "s%d%d" % (rank, i)) for i in range(10)] for rank in range(2)]
    row = samples_row(map(one_pass, noise), one_pass(WHOLE))
    assert row.verdict == "not compared" and "only their number" in row.text, (row.verdict, row.lines())
    alike = [[(x, "1") for x, _ in half] for half in noise]  # weights of samples, for example
    row = samples_row(map(one_pass, alike), one_pass([(x, "1") for x, _ in WHOLE]))
    assert row.verdict == "not compared", row.lines()
    row = samples_row(map(one_pass, halves), one_pass(WHOLE, complete=False))
    assert row.verdict == "right" and "have no end" in row.details[0], row.lines()
    equal = [("x", "y")] * 20  # samples may be equal to each other
    row = samples_row([one_pass(equal[:10]), one_pass(equal[:10])], one_pass(equal))
    assert row.verdict == "right" and not row.details, row.lines()


def check_parts():
    """Of tensors that the ranks divide, without a loader."""
    def row(*taken):
        ranks = [process(parts=[{"place": "line 1", "size": 9, "parts": 2, "whole": whole, "part": part}
                                for whole, part in one]) for one in taken]
        return compare_samples.samples(ranks, process(), PLAN, Places)

    assert row([("x", 0), ("y", 0)], [("x", 1), ("y", 1)]).text == "each is on one rank, in 2 tensors that the ranks divide"
    assert "each part of a tensor once" in row([("x", 0)], [("x", 0)]).text
    assert "not the same on all" in row([("x", 0)], [("z", 1)]).text
    assert "different numbers" in row([("x", 0), ("y", 0)], [("x", 1)]).text
    assert row([], []).verdict == "WRONG"


def check_evaluation():
    def row(samples, others, whole):
        ranks = [process(one_pass(one, trained=False)) for one in (samples, others)]
        return compare_samples.evaluation(ranks, process(one_pass(whole, trained=False)), Places)

    assert row(WHOLE, WHOLE, WHOLE).verdict == "right"
    assert row(WHOLE[::2], WHOLE[1::2], WHOLE).verdict == "right"
    assert row(WHOLE[::2], WHOLE[::2], WHOLE).verdict == "WRONG"
    assert row(WHOLE[:4], WHOLE[4:8], WHOLE).verdict == "WRONG"


def check_progress():
    bars = ["Epoch 1/2\n", " 1/10 [==>...........] - ETA: 3s - loss: 9.0", "\b" * 5,
            "10/10 [==============================] - 1s 9ms/step - loss: 0.5000 - accuracy: 0.2500\n", "done 3\n"]
    data = {"passes": [], "by_keras": True, "texts": [(text, "line 1", []) for text in bars]}
    lines = [line.text for line in compare_outputs.printed_lines(data)]
    assert lines == ["Epoch 1/2", "loss: 0.5000 accuracy: 0.2500", "done 3"], lines
    # A script of PyTorch may print what looks like a bar.
    data = {"passes": [], "by_keras": False, "texts": [("3/10 loss 0.5\n", "line 1", [])]}
    assert [line.text for line in compare_outputs.printed_lines(data)] == ["3/10 loss 0.5"]


check_samples()
check_parts()
check_evaluation()
check_progress()
print("ok")
