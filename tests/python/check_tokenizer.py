#!/usr/bin/env python3
"""Texts by a tokenizer.json: the tokens are those of Python's package tokenizers, on 10,000 random strings and in a file;
what a model makes of them is what ONNX Runtime makes of the same tokens; a run has its tokenizer with it.

    python tests/python/check_tokenizer.py build/release/telar
"""

import array
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

try:
    import tokenizers
except ImportError:
    print("SKIPPED: this Python has no package tokenizers; scripts/setup python installs it")
    sys.exit(77)

PROGRAM = os.path.abspath(sys.argv[1])
LENGTH = 6
LETTERS = "abcdefg ABC  \n\t.,'1234 äöß→漢字🙂é"


def telar(*words, code=0, python=sys.executable):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, env={**os.environ, "TELAR_PYTHON": python})
    assert done.returncode == code, (words, done.returncode, done.stderr.decode())
    return done.stdout.decode() if code == 0 else done.stderr.decode()


def job(**changes):
    keys = {
        "model": {"name": "gpt_small", "options": {"layers": 1, "heads": 2, "width": 8}},
        "data": {"source": "text", "path": "book.txt", "length": LENGTH, "tokens": "tokenizer", "tokenizer": "bytes.json",
                 "validation": 0.2},
        "training": {"batch": 16, "epochs": 2},
        "output": {"tensorboard": False},
    }
    for key, value in changes.items():
        keys[key] = {**keys.get(key, {}), **value}
    pathlib.Path("job.yaml").write_text(json.dumps(keys))  # JSON is YAML
    return "job.yaml"


def make_tokenizers(draw):
    """One of bytes, as GPT-2 has it, and one of lower-case words with tokens around each text, which cuts and pads."""
    texts = ["".join(draw.choices(LETTERS, k=60)) for _ in range(200)]
    of_bytes = tokenizers.Tokenizer(tokenizers.models.BPE())
    of_bytes.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    of_bytes.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    of_bytes.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False))
    of_bytes.save("bytes.json")
    of_words = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    of_words.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    of_words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    of_words.decoder = tokenizers.decoders.WordPiece()
    of_words.train_from_iterator(texts, tokenizers.trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    of_words.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, of_words.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    of_words.enable_truncation(5)
    of_words.enable_padding(length=9)
    of_words.save("words.json")
    of_words.no_truncation()
    of_words.no_padding()
    return of_bytes, of_words


def kept_tokens():
    """What is in the newest file of the cache: the tokens of each text."""
    path = max(pathlib.Path("cache/telar/tokens").glob("*.ids"), key=lambda file: file.stat().st_mtime_ns)
    data = path.read_bytes()
    texts, vocabulary = array.array("q", data[-16:])
    counts = array.array("q", data[len(data) - 16 - 8 * texts:-16])
    tokens = array.array("i", data[:len(data) - 16 - 8 * texts]).tolist()
    ends = numpy.cumsum(counts)
    assert ends[-1] == len(tokens)
    return path, [tokens[end - count:end] for end, count in zip(ends, counts)], vocabulary


def executed(path, ids):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": numpy.array(ids, "i4")})[0], session.get_modelmeta().custom_metadata_map


def check_labelled(draw, by_file):
    """10,000 strings, and the predictions for new ones."""
    texts = ["".join(draw.choices(LETTERS, k=draw.randrange(40))) for _ in range(10000)]
    rows = "".join('"{}",{}\n'.format(text, draw.choice("xy")) for text in texts)
    pathlib.Path("t.csv").write_bytes(("text,label\n" + rows).encode())
    for file, tokenizer in by_file.items():
        data = {"source": "labelled_texts", "path": "t.csv", "tokenizer": file}
        telar("train", job(model={"name": "text_classifier", "options": {"width": 4}}, data=data, training={"epochs": 1, "batch": 512}),
              "--output", file + ".run", "--quiet")
        _, kept, vocabulary = kept_tokens()
        expected = [encoding.ids for encoding in map(tokenizer.encode, texts)]
        assert kept == expected
        assert vocabulary == 1 + max(tokenizer.get_vocab().values()) == tokenizer.get_vocab_size()
        telar("export", file + ".run", "m.onnx", "--quiet")
        ids = [([token + 1 for token in tokens] + [0] * LENGTH)[:LENGTH] for tokens in expected]
        given, about = executed("m.onnx", ids)
        assert about["telar.tokens"] == "tokenizer", about
        assert tokenizers.Tokenizer.from_str(about["telar.tokenizer"]).get_vocab() == tokenizer.get_vocab()
        lines = telar("predict", file + ".run", "t.csv", "--all", "--quiet").splitlines()[1:]
        numpy.testing.assert_allclose([[float(cell) for cell in line.split(",")[-2:]] for line in lines], given, rtol=1e-4, atol=1e-5)


def assert_continued(run, model, tokenizer, prompt):
    """Greedily, as ONNX Runtime does, from the prompt without the tokens that a whole text has around it."""
    tokens = tokenizer.encode(prompt, add_special_tokens=False).ids
    of_prompt = tokenizer.decode(tokens)
    for _ in range(20):
        seen = tokens[-LENGTH:]
        given, _ = executed(model, [seen + [0] * (LENGTH - len(seen))])
        tokens.append(int(given[0, len(seen) - 1].argmax()))
    telar("predict", run, "--prompt", prompt, "--tokens", 20, "--temperature", 0, "--out", "out", "--quiet")
    whole = tokenizer.decode(tokens)
    assert whole.startswith(of_prompt)
    assert pathlib.Path("out").read_bytes().decode() == prompt + whole[len(of_prompt):], prompt


def check_book(draw, tokenizer, of_words):
    text = "".join(draw.choices(LETTERS, k=4000))
    pathlib.Path("book.txt").write_text(text, newline="")
    telar("train", job(), "--output", "run", "--quiet")
    path, (kept,), vocabulary = kept_tokens()
    assert kept == tokenizer.encode(text).ids
    # The run has its tokenizer with it, and what is in the cache needs no Python.
    os.rename("bytes.json", "gone.json")
    telar("export", "run", "m.onnx", "--quiet")
    telar("evaluate", "run", "--data", "book.txt", "--summary", "found.json", "--quiet", python="/nowhere")
    windows = numpy.array([kept[i:i + LENGTH + 1] for i in range(0, len(kept) - LENGTH, LENGTH)])
    given, _ = executed("m.onnx", windows[:, :-1])
    assert given.shape[2] == vocabulary
    figures = json.loads(pathlib.Path("found.json").read_text())
    loss = -numpy.log(numpy.take_along_axis(given, windows[:, 1:, None], 2)).mean()
    assert figures["samples"] == len(windows) and abs(figures["test_loss"] - loss) < 1e-5, (figures, loss)
    for prompt in ("a", "größer ist 漢字", "The end. " * 5):
        assert_continued("run", "m.onnx", tokenizer, prompt)
    shown = telar("predict", "run", "--prompt", "a b", "--tokens", 3, "--temperature", 0, "--quiet")
    assert shown.startswith("a b") and shown.endswith("\n"), shown
    telar("train", job(data={"tokenizer": "words.json"}), "--output", "of_words", "--quiet")
    telar("export", "of_words", "w.onnx", "--quiet")
    assert_continued("of_words", "w.onnx", of_words, "the end")
    telar("train", "run", "--resume", "--set", "training.epochs=3", "--quiet", python="/nowhere")
    os.rename("gone.json", "bytes.json")
    os.truncate(path, 100)
    assert "is no file of tokens; remove it, and it is made again" in telar("train", job(), "--output", "none", code=1)
    path.unlink()


def check_refusals():
    def sentence(code=2, python=sys.executable, **data):
        return telar("train", job(data=data), "--output", "none", code=code, python=python)

    assert "data.tokenizer must name its file" in sentence(tokenizer="")
    assert "data.tokenizer is given, but data.tokens is not tokenizer" in sentence(tokens="bytes")
    assert "nowhere.json" in sentence(tokenizer="nowhere.json")
    pathlib.Path("wrong.json").write_text("{}")
    assert "wrong.json: Python's package tokenizers does not read it" in sentence(tokenizer="wrong.json")
    assert "/nowhere" in sentence(python="/nowhere")
    pathlib.Path("bare").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    os.chmod("bare", 0o755)
    assert "bare has no package tokenizers; install it there, as with pip install tokenizers" in sentence(python="./bare")
    pathlib.Path("latin.txt").write_bytes("one\n\ncafé\n".encode("latin-1") * 20)
    assert "latin.txt, line 3: is no UTF-8" in sentence(path="latin.txt")
    # A file of that name with other tokens is not that of the run.
    pathlib.Path("run/tokenizer.json").write_bytes(pathlib.Path("words.json").read_bytes())
    assert "is not the tokenizer with which the run was trained" in telar("train", "run", "--resume", "--set", "training.epochs=4", code=2)


def main():
    draw = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        of_bytes, of_words = make_tokenizers(draw)
        check_labelled(draw, {"bytes.json": of_bytes, "words.json": of_words})
        check_book(draw, of_bytes, of_words)
        check_refusals()


if __name__ == "__main__":
    main()
