#!/usr/bin/env python3
"""gpt_small on a text: losses, accuracies and perplexities of 20 steps are PyTorch's under several strategies, and so are
evaluation and the text that the model writes. What cannot be is refused by a sentence.

    PYTHONPATH=build/release/python scripts/install-peers --run tests/python/check_text.py TELAR
"""

import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
from torch import nn

LENGTH, BATCH, STEPS, RATE = 24, 6, 20, 0.01
SIZES = {"layers": 2, "heads": 2, "width": 16}
STRATEGIES = {
    "single": {"name": "single"},
    "mirrored": {"name": "mirrored", "replicas": 2},
    "sharded-1": {"name": "sharded", "stage": 1},
    "sharded-2": {"name": "sharded", "stage": 2, "whole_below": 0},
    "sharded-3": {"name": "sharded", "stage": 3, "whole_below": 0},
    "pipeline": {"name": "pipeline", "stages": 2, "micro_batches": 3},
    "tensor": {"name": "tensor", "ways": 2, "split": ["blocks.*.mlp.fc1=columns", "blocks.*.mlp.fc2=rows"]},
    "sync_ps": {"name": "sync_ps", "workers": 2},
    "async_sgd": {"name": "async_sgd", "workers": 1},
}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, length=LENGTH, vocabulary=256):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, x, y):
        logits = self(x)
        return nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()), (logits.argmax(2) == y).double().mean()


def drawn_text(size, seed):
    draw = random.Random(seed)
    words = ["the", "loom", "weaves", "a", "thread", "größer", "ist", "und", "→", "cloth", "of", "twenty"]
    text = ""
    while len(text) < size:
        text += draw.choice(words) + draw.choice([" ", " ", " ", ", ", ".\n"])
    return text.encode()


def windows(text, stride=LENGTH):
    starts = range(0, len(text) - LENGTH, stride)
    return torch.tensor([list(text[i:i + LENGTH + 1]) for i in starts])


def telar(*words, code=0):
    result = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True)
    assert result.returncode == code, (words, result.returncode, result.stderr.decode())
    return result.stdout if code == 0 else result.stderr.decode()


def job(folder, **changes):
    keys = {
        "model": {"name": "gpt_small", "options": SIZES, "weights": str(folder / "given.safetensors")},
        "data": {"source": "text", "path": str(folder / "text"), "length": LENGTH, "shuffle": False, "validation": 0},
        "optimizer": {"name": "adam", "learning_rate": RATE},
        "training": {"batch": BATCH, "epochs": 1, "metrics": ["perplexity", "f1"]},
        "output": {"tensorboard": False},
    }
    for key, value in changes.items():
        keys[key] = {**keys.get(key, {}), **value}
    (folder / "job.yaml").write_text(json.dumps(keys))  # JSON is YAML
    return folder / "job.yaml"


def trained_by_pytorch(model, samples):
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    steps = []
    for step in range(STEPS):
        part = samples[step * BATCH:(step + 1) * BATCH]
        loss, accuracy = model.loss(part[:, :-1], part[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append((loss.item(), accuracy.item()))
    return steps


def check_strategies(folder, expected):
    for name, strategy in STRATEGIES.items():
        telar("train", job(folder, strategy=strategy), "--output", folder / name, "--quiet")
        lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "step"]
        assert len(steps) == STEPS, (name, len(steps))
        for line, (loss, accuracy) in zip(steps, expected):
            assert abs(line["loss"] - loss) < 1e-5 * loss, (name, line, loss)
            assert abs(line["accuracy"] - accuracy) < 1e-6, (name, line, accuracy)
            assert abs(line["perplexity"] - math.exp(loss)) < 1e-4 * math.exp(loss), (name, line, loss)


def continued(model, prompt, tokens):
    text = list(prompt)
    for _ in range(tokens):
        text.append(model(torch.tensor([text[-LENGTH:]]))[0, -1].argmax().item())
    return bytes(text)


def check_text(folder, model):
    model.eval()
    run = folder / "single"
    for prompt in (b"t", b"the loom weaves", "größer ist der Faden, länger als jedes Fenster".encode()):
        telar("predict", run, "--prompt", prompt.decode(), "--tokens", 40, "--temperature", 0, "--out", folder / "out")
        assert (folder / "out").read_bytes() == continued(model, prompt, 40), prompt
    endless = [sys.argv[1], "predict", run, "--prompt", "the", "--tokens", str(10**9), "--quiet"]
    with subprocess.Popen(endless, stdout=subprocess.PIPE) as process:
        written = process.stdout.read(40)  # while it goes on
        process.kill()
    assert written.startswith(b"the") and len(written) == 40, written
    seeds = [telar("predict", run, "--prompt", "the", "--seed", seed, "--temperature", 1.5) for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2], seeds
    seeds[0].decode()  # UTF-8, whatever the bytes


def check_evaluation(folder, model):
    text = drawn_text(2000, 9)
    (folder / "texts").mkdir()
    (folder / "texts/a").write_bytes(text[:700])
    (folder / "texts/b").write_bytes(text[700:])
    (folder / "texts/short").write_bytes(text[:LENGTH])
    (folder / "texts/.hidden").write_bytes(text)
    samples = torch.cat([windows(text[:700]), windows(text[700:])])
    loss, accuracy = model.loss(samples[:, :-1], samples[:, 1:])
    telar("evaluate", folder / "single", "--data", folder / "texts", "--summary", folder / "found.json", "--quiet")
    figures = json.loads((folder / "found.json").read_text())
    assert figures["samples"] == len(samples), (figures, len(samples))
    assert abs(figures["test_loss"] - loss.item()) < 1e-5 * loss.item(), (figures, loss)
    assert abs(figures["test_perplexity"] - math.exp(loss.item())) < 1e-4 * math.exp(loss.item()), (figures, loss)
    assert abs(figures["test_f1_micro"] - accuracy.item()) < 1e-6, (figures, accuracy)  # of one label for each position
    assert abs(figures["test_accuracy"] - accuracy.item()) < 1e-6, (figures, accuracy)


def check_words(folder):
    """The vocabulary of the training part, the losses before the first step, and the text written."""
    text = drawn_text(4000, 5).decode()
    (folder / "words.txt").write_text(text)
    words = re.findall(r"\w+|[^\w\s]|\n", text)
    training = words[:(len(words) - 1) // LENGTH // 2 * LENGTH]  # the first half of the windows
    common = sorted(set(training), key=lambda word: (-training.count(word), word.encode()))[:8]
    vocabulary = {word: token for token, word in enumerate(["<unknown>", *common])}
    torch.manual_seed(3)
    model = Gpt(**SIZES, vocabulary=len(vocabulary))
    safetensors.torch.save_file(model.state_dict(), folder / "given.safetensors")
    model.double().eval()
    data = {"path": str(folder / "words.txt"), "tokens": "words", "most_words": 9, "split": "time", "validation": 0.5}
    telar("train", job(folder, data=data, optimizer={"learning_rate": 1e-30}), "--output", folder / "words", "--quiet")
    tokens = torch.tensor([vocabulary.get(word, 0) for word in words])
    samples = torch.stack([tokens[i:i + LENGTH + 1] for i in range(0, len(tokens) - LENGTH, LENGTH)])
    telar("evaluate", folder / "words", "--data", folder / "words.txt", "--summary", folder / "found.json", "--quiet")
    figures = json.loads((folder / "found.json").read_text())
    loss, accuracy = model.loss(samples[:, :-1], samples[:, 1:])
    assert figures["samples"] == len(samples), (figures, len(samples))
    assert abs(figures["test_loss"] - loss.item()) < 1e-5 * loss.item(), (figures, loss)
    assert abs(figures["test_accuracy"] - accuracy.item()) < 1e-6, (figures, accuracy)
    written = telar("predict", folder / "words", "--prompt", "the loom", "--tokens", 30, "--temperature", 0).decode()
    text = [vocabulary.get(word, 0) for word in ("the", "loom")]
    for _ in range(30):
        text.append(model(torch.tensor([text[-LENGTH:]]))[0, -1].argmax().item())
    names = list(vocabulary)
    assert re.findall(r"<unknown>|\w+|[^\w\s]|\n", written)[2:32] == [names[token] for token in text[2:]], (written, text)
    by_hand = telar("train", job(folder, data={**data, "words": ["the"]}), "--check", code=2)
    assert "data.words is decided by the training samples" in by_hand, by_hand
    assert "has no word" in telar("predict", folder / "words", "--prompt", " ", code=2)


def check_refusals(folder):
    def sentence(**changes):
        return telar("train", job(folder, **changes), "--output", folder / "none", code=2)

    (folder / "empty").write_bytes(b"")
    (folder / "short").write_bytes(bytes(LENGTH))
    (folder / "packed.gz").write_bytes(b"\x1f\x8b" + bytes(100))
    (folder / "nothing").mkdir()
    (folder / "nothing/sub").mkdir()
    assert "the file has 0 bytes; a sample has data.length 24, and the one after it, 25 in all" in sentence(data={"path": str(folder / "empty")})
    assert "the file has 24 bytes" in sentence(data={"path": str(folder / "short")})
    assert "there is no such file or folder" in sentence(data={"path": str(folder / "nowhere")})
    assert "nothing: has no files" in sentence(data={"path": str(folder / "nothing")})
    assert "is compressed (gzip); unpack it first" in sentence(data={"path": str(folder / "packed.gz")})
    assert "a sample of these data has 24 labels" in sentence(loss={"balanced": True})
    split = sentence(data={"split": "stratified", "validation": 0.2})
    assert "job.yaml" in split and "data.split is stratified, but a sample of text has a label for each position" in split, split
    assert "choose random or time" in split, split
    assert "choose random or time" in sentence(data={"split": "group", "validation": 0.2})
    assert "by_label, but a sample of text has a label for each position" in sentence(data={"mixing": "by_label"})
    assert "produces [1, 24] for a batch of 1" not in sentence(model={"options": {"heads": 3}})
    run = folder / "single"
    for key in ("length", "stride"):
        assert f"--set data.{key}=16: a prompt is continued with the length" in telar(
            "predict", run, "--prompt", "a", "--set", f"data.{key}=16", code=2)
    assert "--all" in telar("predict", run, "--prompt", "a", "--all", code=2)
    assert "the prompt is empty" in telar("predict", run, "--prompt", "", code=2)
    assert "continues a text, with --prompt" in telar("predict", run, folder / "text", code=2)
    assert "continues a text, with --prompt" in telar("predict", run, "--from", "topic", code=2)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Gpt(**SIZES)
    text = drawn_text(LENGTH * BATCH * STEPS + 1, 1)[:LENGTH * BATCH * STEPS + 1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_bytes(text)
        safetensors.torch.save_file(model.state_dict(), folder / "given.safetensors")
        model.double()
        check_strategies(folder, trained_by_pytorch(model, windows(text)))
        check_text(folder, model)
        check_evaluation(folder, model)
        check_refusals(folder)
        check_words(folder)


if __name__ == "__main__":
    main()
