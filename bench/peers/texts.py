"""Trains on real texts with telar and with PyTorch, in turns, from the same initial values, and prints what
both learned and how long they took (scripts/bench-texts).

    python bench/peers/texts.py TELAR {labels,book} [--seeds N] [--in-order]

labels: text_classifier on Debian's fortunes, whose class is their file. book: gpt_small on the first 360 KB of
Debian's King James Bible. A seed gives other initial values and, without --in-order, an order of the samples,
which is another one in each program. Figures are those of the held-out part after the last epoch, with
Student's interval of 95 %; times are those of the training steps alone, with the samples in memory.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import safetensors.torch
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/python"))
from check_text import Gpt  # noqa: E402

THREADS = 2
STUDENT = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # of N values
LETTER = r"[0-9A-Za-z_\u0080-\U0010ffff]"
WORD = re.compile(rf"{LETTER}+(?:'{LETTER}+)*|[!-/:-@\[-^`{{-~]")  # without ends of lines, of which these texts have none


class Classifier(nn.Module):
    def __init__(self, vocabulary, classes):
        super().__init__()
        self.embedding, self.fc = nn.EmbeddingBag(vocabulary, 64, mode="mean", padding_idx=0), nn.Linear(64, classes)

    def forward(self, tokens):
        return self.fc(self.embedding(tokens))


class Labels:
    """Of the classes with at least 500 texts; every fifth text is held out."""

    length, batch, epochs, rate = 100, 32, 8, 0.003
    model = {"name": "text_classifier"}
    data = {"source": "labelled_texts", "form": "lines", "length": length}

    def __init__(self, folder):
        texts = []
        for file in sorted(pathlib.Path("/usr/share/games/fortunes").glob("*.u8")):
            own = [" ".join(text.split()) for text in file.read_text().split("\n%\n")]
            texts += [(file.stem, text) for text in own if text] if len(own) >= 500 else []
        random.Random(0).shuffle(texts)
        parts = {"test": texts[::5], "train": [text for i, text in enumerate(texts) if i % 5 > 0]}
        self.classes = sorted({label for label, _ in texts})
        words = {name: [WORD.findall(text)[:self.length] for _, text in part] for name, part in parts.items()}
        counts = collections.Counter(word for text in words["train"] for word in text)
        common = sorted(counts, key=lambda word: (-counts[word], word.encode()))[:9999]
        known = {word: token for token, word in enumerate(common, 2)}
        self.vocabulary = len(known) + 2
        for name, part in parts.items():
            (folder / name).write_text("".join(f"{label}\t{text}\n" for label, text in part))
            x = torch.zeros(len(part), self.length, dtype=torch.long)
            for row, text in zip(x, words[name]):
                row[:len(text)] = torch.tensor([known.get(word, 1) for word in text], dtype=torch.long)
            setattr(self, name, (x, torch.tensor([self.classes.index(label) for label, _ in part])))

    def network(self):
        return Classifier(self.vocabulary, len(self.classes))


class Book:
    """Windows of its bytes; the last tenth is held out."""

    length, batch, epochs, rate = 128, 32, 1, 0.001
    model = {"name": "gpt_small"}
    data = {"source": "text", "length": length}

    def __init__(self, folder):
        bible = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True)
        text = bible.stdout[:360_000]
        border = len(text) * 9 // 10
        for name, part in {"train": text[:border], "test": text[border:]}.items():
            (folder / name).write_bytes(part)
            tokens = torch.tensor(list(part)).unfold(0, self.length + 1, self.length)
            setattr(self, name, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))

    def network(self):
        return Gpt(4, 4, 128, self.length)


def by_pytorch(work, network, seed, in_order):
    """The seconds of the training, and loss and accuracy of the held-out part."""
    x, y = work.train
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=work.rate, fused=True)
    network.train()
    begun = time.perf_counter()
    for _ in range(work.epochs):
        order = torch.arange(len(x)) if in_order else torch.randperm(len(x), generator=draw)
        for rows in order.split(work.batch):
            loss = nn.functional.cross_entropy(network(x[rows]).flatten(0, -2), y[rows].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    seconds = time.perf_counter() - begun
    network.eval()
    loss = right = 0
    with torch.inference_mode():
        for x, y in zip(work.test[0].split(256), work.test[1].split(256)):
            logits = network(x).flatten(0, -2)
            loss += nn.functional.cross_entropy(logits, y.flatten(), reduction="sum").item()
            right += (logits.argmax(1) == y.flatten()).sum().item()
    return seconds, loss / work.test[1].numel(), right / work.test[1].numel()


def by_telar(telar, work, folder, seed, in_order):
    job = {
        "model": {**work.model, "weights": str(folder / "given.safetensors")},
        "data": {**work.data, "path": str(folder / "train"), "test_path": str(folder / "test"), "validation": 0,
                 "shuffle": not in_order},
        "optimizer": {"name": "adam", "learning_rate": work.rate},
        "training": {"batch": work.batch, "epochs": work.epochs, "seed": seed},
        "strategy": {"name": "single", "threads": THREADS},
        "output": {"tensorboard": False, "folder": str(folder / f"run-{seed}")},
    }
    (folder / "job.yaml").write_text(json.dumps(job))  # JSON is YAML
    subprocess.run([telar, "train", folder / "job.yaml", "--quiet", "--summary", folder / "summary.json"], check=True)
    found = json.loads((folder / "summary.json").read_text())
    return found["seconds"], found["test_loss"], found["test_accuracy"]


def interval(values):
    return STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("telar")
    parser.add_argument("texts", choices=["labels", "book"])
    parser.add_argument("--seeds", type=int, choices=STUDENT, default=5)
    parser.add_argument("--in-order", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        work = {"labels": Labels, "book": Book}[arguments.texts](folder)
        print(f"{arguments.texts}: {len(work.train[0])} samples to train on, {len(work.test[0])} held out", flush=True)
        found = {"telar": [], "PyTorch": []}
        for seed in range(1, arguments.seeds + 1):
            torch.manual_seed(seed)
            network = work.network()
            safetensors.torch.save_file(network.state_dict(), folder / "given.safetensors")
            found["telar"].append(by_telar(arguments.telar, work, folder, seed, arguments.in_order))
            found["PyTorch"].append(by_pytorch(work, network, seed, arguments.in_order))
            for program, rows in found.items():
                print("seed {}, {}: {:.2f} s, loss {:.4f}, accuracy {:.4f}".format(seed, program, *rows[-1]), flush=True)
    for column, figure in enumerate(["seconds", "loss", "accuracy"]):
        values = {program: [row[column] for row in rows] for program, rows in found.items()}
        if figure == "seconds":
            medians = {program: statistics.median(rows) for program, rows in values.items()}
            shown = ", ".join(f"{program} {rows:.2f}" for program, rows in medians.items())
            print(f"seconds (medians): {shown}; PyTorch / telar {medians['PyTorch'] / medians['telar']:.2f}")
            continue
        means = {program: statistics.mean(rows) for program, rows in values.items()}
        within = abs(means["telar"] - means["PyTorch"]) <= interval(values["PyTorch"])
        shown = ", ".join(f"{program} {mean:.4f} ± {interval(values[program]):.4f}" for program, mean in means.items())
        print(f"{figure} (means): {shown}; telar is {'within' if within else 'NOT within'} PyTorch's interval")


if __name__ == "__main__":
    main()
