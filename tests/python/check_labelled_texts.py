#!/usr/bin/env python3
"""text_classifier on labelled texts: losses and accuracies of 12 steps are those of PyTorch's EmbeddingBag under every strategy,
and so are evaluation, predictions of new texts, a resumed run, and the same model as layers. What cannot be is refused by a
sentence.

    PYTHONPATH=build/release/python scripts/install-peers --run tests/python/check_labelled_texts.py TELAR
"""

import collections
import csv
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
from torch import nn

LENGTH, BATCH, STEPS, RATE, WIDTH = 12, 10, 12, 0.02, 8
CLASSES = ["cloth", "ship", "song"]
STRATEGIES = {
    "single": {"name": "single"},
    "mirrored": {"name": "mirrored", "replicas": 2},
    "sharded-1": {"name": "sharded", "stage": 1},
    "sharded-2": {"name": "sharded", "stage": 2, "whole_below": 0},
    "sharded-3": {"name": "sharded", "stage": 3, "whole_below": 0},
    "pipeline": {"name": "pipeline", "stages": 2, "micro_batches": 2},
    "tensor": {"name": "tensor", "ways": 2, "split": ["embedding=rows"]},
    "hybrid": {"name": "hybrid", "data": 2, "model": 2, "split": ["embedding=rows"]},
    "hybrid-stages": {"name": "hybrid", "data": 2, "model": 1, "stages": 2},
    "sync_ps": {"name": "sync_ps", "workers": 2},
    "downpour": {"name": "downpour", "workers": 1},
    "async_sgd": {"name": "async_sgd", "workers": 1},
    "local_sgd": {"name": "local_sgd", "warmup_steps": 1000},
    "async_local_sgd": {"name": "async_local_sgd", "workers": 1, "average_every": 1},
    "parameter_averaging": {"name": "parameter_averaging", "workers": 1, "average_every": 1},
}
LAYERS = [{"type": "embedding", "width": WIDTH, "name": "embedding"},
          {"type": "masked_mean", "inputs": ["embedding", "input"]},
          {"type": "linear", "features": len(CLASSES), "name": "fc"}]


class Classifier(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, WIDTH, mode="mean", padding_idx=0)
        self.fc = nn.Linear(WIDTH, len(CLASSES))

    def forward(self, tokens):
        return self.fc(self.embedding(tokens))

    def loss(self, x, y):
        logits = self(x)
        return nn.functional.cross_entropy(logits, y), (logits.argmax(1) == y).double().mean()


def drawn_texts(count, seed):
    """With an empty text, one of a word that no training text has, and some that are too long."""
    draw = random.Random(seed)
    own = {"cloth": ["loom", "thread", "weave"], "ship": ["sail", "größer", "mast"], "song": ["choir", "it's", "→"]}
    texts = []
    for i in range(count):
        label = CLASSES[i % 3]
        words = [draw.choice(own[label] if draw.random() < 0.3 else ["the", "of", "a", ",", "and"]) for _ in range(draw.randrange(1, 18))]
        texts.append((label, " ".join(words)))
    texts[4] = ("ship", "")
    return texts


def words_of(text):
    return re.findall(r"\w+(?:'\w+)*|[^\w\s]|\n", text)


def tokens_of(texts, known):
    rows = [[known.get(word, 1) for word in words_of(text)][:LENGTH] for _, text in texts]
    return torch.tensor([row + [0] * (LENGTH - len(row)) for row in rows])


def telar(*words, code=0):
    result = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True)
    assert result.returncode == code, (words, result.returncode, result.stderr.decode())
    return result.stdout.decode() if code == 0 else result.stderr.decode()


def lines_of(texts):
    return "".join(f"{label}\t{text}\n" for label, text in texts)


def job(folder, **changes):
    keys = {
        "model": {"name": "text_classifier", "options": {"width": WIDTH}, "weights": str(folder / "given.safetensors")},
        "data": {"source": "labelled_texts", "form": "lines", "path": str(folder / "texts"), "length": LENGTH, "most_words": 12,
                 "shuffle": False, "validation": 0},
        "optimizer": {"name": "sgd", "learning_rate": RATE},
        "training": {"batch": BATCH, "epochs": 1},
        "output": {"tensorboard": False},
    }
    for key, value in changes.items():
        keys[key] = value if key == "layers" else {**keys.get(key, {}), **value}
    if "layers" in keys:
        keys["model"] = {"layers": keys.pop("layers"), "weights": str(folder / "given.safetensors")}
    (folder / "job.yaml").write_text(json.dumps(keys))  # JSON is YAML
    return folder / "job.yaml"


def steps_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["loss"], line["accuracy"]) for line in lines if line["kind"] == "step"]


def trained_by_pytorch(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    steps = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        loss, accuracy = model.loss(x[part], y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append((loss.item(), accuracy.item()))
    return steps


def check_steps(name, found, expected):
    assert len(found) == len(expected), (name, len(found))
    for step, (a, b) in enumerate(zip(found, expected)):
        assert abs(a[0] - b[0]) < 1e-5 * b[0] and abs(a[1] - b[1]) < 1e-6, (name, step, a, b)


def check_strategies(folder, expected):
    for name, strategy in STRATEGIES.items():
        telar("train", job(folder, strategy=strategy), "--output", folder / name, "--quiet")
        check_steps(name, steps_of(folder / name), expected)
    telar("train", job(folder, layers=LAYERS), "--output", folder / "layers", "--quiet")
    check_steps("layers", steps_of(folder / "layers"), expected)


def check_resume(folder, expected):
    """A run of two passes, stopped after one."""
    telar("train", job(folder), "--output", folder / "resumed", "--quiet")
    telar("train", "--resume", folder / "resumed", "--set", "training.epochs=2", "--quiet")
    check_steps("resumed", steps_of(folder / "resumed"), expected)
    lines = lines_of(drawn_texts(STEPS * BATCH, 8))
    kept = (folder / "texts").read_text()
    (folder / "texts").write_text(lines)
    changed = telar("train", "--resume", folder / "resumed", "--set", "training.epochs=3", "--quiet", code=2)
    assert "data.path" in changed, changed
    (folder / "texts").write_text(kept)


def check_new_texts(folder, model, known):
    new = drawn_texts(40, 9)
    new[7] = ("song", "unseen words")
    x, y = tokens_of(new, known), torch.tensor([CLASSES.index(label) for label, _ in new])
    loss, accuracy = model.loss(x, y)
    (folder / "new").write_text(lines_of(new))
    telar("evaluate", folder / "single", "--data", folder / "new", "--summary", folder / "found.json", "--quiet")
    figures = json.loads((folder / "found.json").read_text())
    assert figures["samples"] == 40 and abs(figures["test_loss"] - loss.item()) < 1e-5 * loss.item(), (figures, loss)
    assert abs(figures["test_accuracy"] - accuracy.item()) < 1e-6, (figures, accuracy)
    (folder / "lines").write_text("".join(f"{text}\n" for _, text in new))
    table = list(csv.reader(io.StringIO(telar("predict", folder / "single", folder / "lines", "--all"))))
    assert table[0][2:] == ["class", "probability", *(f"p({name})" for name in CLASSES)], table[0]
    expected = torch.softmax(model(x), 1)
    for row, right in zip(table[1:], expected, strict=True):
        assert row[2] == CLASSES[right.argmax()], (row, right)
        assert all(abs(float(a) - b) < 1e-5 for a, b in zip(row[4:], right.tolist())), (row, right)


def check_forms(folder):
    """A table, a folder and lines of the same texts are the same samples."""
    texts = drawn_texts(60, 2)
    with open(folder / "table.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "topic", "body"])
        rows.writerows([i, label, text] for i, (label, text) in enumerate(texts))
    for i, (label, text) in enumerate(texts):
        (folder / "folder" / label).mkdir(parents=True, exist_ok=True)
        (folder / "folder" / label / f"{i:02}.txt").write_text(text)
    (folder / "forms").write_text(lines_of(texts))
    (folder / "sorted").write_text(lines_of(sorted(texts, key=lambda text: text[0])))
    columns = {"form": "table", "text": "body", "label": "topic"}
    free = {"model": {"name": "text_classifier", "options": {"width": WIDTH}}}
    data = {"forms": {}, "table.csv": columns, "sorted": {}, "folder": {"form": "folder"}}
    found = {}
    for name, form in data.items():
        keys = json.loads(job(folder, data={"path": str(folder / name), **form}).read_text())
        (folder / "job.yaml").write_text(json.dumps({**keys, **free}))
        telar("train", folder / "job.yaml", "--output", folder / ("of-" + name), "--quiet")
        found[name] = steps_of(folder / ("of-" + name))
    assert found["forms"] == found["table.csv"] != found["sorted"] == found["folder"], found
    # What telar predict takes is of the form of the training.
    (folder / "new.csv").write_text('n,body\n1,"the loom,\nand"\n2,sail\n')
    assert len(telar("predict", folder / "of-table.csv", folder / "new.csv").splitlines()) == 3
    texts = [folder / "folder/ship/01.txt", folder / "folder/song/02.txt"]
    assert len(telar("predict", folder / "of-folder", *texts).splitlines()) == 3
    assert "no columns are called 'body'" in telar("predict", folder / "of-table.csv", folder / "lines", code=2)
    # Each class's part of what is set aside, and its weight.
    keys = json.loads(job(folder, data={"validation": 0.5, "split": "stratified"}, loss={"balanced": True}).read_text())
    (folder / "job.yaml").write_text(json.dumps({**keys, **free}))
    telar("train", folder / "job.yaml", "--output", folder / "stratified", "--quiet")


def check_refusals(folder):
    def sentence(**changes):
        return telar("train", job(folder, **changes), "--output", folder / "none", code=2)

    assert "data.words is decided by the training samples" in sentence(data={"words": ["the"]})
    assert "data.class_names must be at least two labels" in sentence(data={"class_names": ["song", "cloth"]})
    assert "source labelled_texts needs 'data.path'" in sentence(data={"path": ""})
    assert "the layer's vocabulary must be at least that" in sentence(model={"options": {"width": WIDTH, "vocabulary": 9}, "weights": ""})
    wrong = [{**LAYERS[0]}, {"type": "masked_mean", "inputs": ["embedding", "embedding"]}, LAYERS[2]]
    assert "masked_mean takes values [N, T, D] and tokens i32 [N, T]" in sentence(layers=wrong)
    assert "choose random, stratified or time" in sentence(data={"split": "group", "validation": 0.2})
    assert "not on texts, so it continues none" in telar("predict", folder / "single", "--prompt", "the", code=2)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    texts = drawn_texts(STEPS * BATCH, 1)
    counts = collections.Counter(word for _, text in texts for word in words_of(text)[:LENGTH])
    common = sorted(counts, key=lambda word: (-counts[word], word.encode()))[:11]
    known = {word: token for token, word in enumerate(common, 2)}
    assert len(counts) > len(common) and any(len(words_of(text)) > LENGTH for _, text in texts)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "texts").write_text(lines_of(texts))
        model = Classifier(len(known) + 2)
        safetensors.torch.save_file(model.state_dict(), folder / "given.safetensors")
        model.double()
        x, y = tokens_of(texts, known), torch.tensor([CLASSES.index(label) for label, _ in texts])
        steps = trained_by_pytorch(model, x, y)
        check_strategies(folder, steps)
        check_new_texts(folder, model, known)
        check_resume(folder, steps + trained_by_pytorch(model, x, y))
        check_forms(folder)
        check_refusals(folder)


if __name__ == "__main__":
    main()
