#!/usr/bin/env python3
"""A job with model.weights, model.freeze and optimizer.factors trains torchvision's ResNet-18 as PyTorch does.

    PYTHONPATH=build/release/python scripts/install-peers --run tests/python/check_weights.py TELAR

The file is what PyTorch saves of such a network, in another order, after "module.", with its counts of batches. What is
frozen neither moves nor has statistics of the batch; the rest has PyTorch's values after three steps, under two strategies.
"""

import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import safetensors.torch
import torch
import torchvision

CLASSES = 4
BATCH = 8
STEPS = 3
RATE = 0.001
FROZEN = ["conv1", "bn1", "layer[12]", "layer3.0.bn*", "layer4.1.conv2.weight"]


def is_frozen(name):
    return name.startswith(("conv1.", "bn1.", "layer1.", "layer2.", "layer3.0.bn")) or name == "layer4.1.conv2.weight"


RATES = ["layer3: 0.5", "fc: 3", "fc.bias: 0.25"]


def rate_of(name):
    return 0.5 if name.startswith("layer3.") else 0.25 if name == "fc.bias" else 3 if name.startswith("fc.") else 1


def trained_by_pytorch(model, images, labels):
    model = copy.deepcopy(model)
    model.train()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d) and is_frozen(name + "."):
            module.eval()
    groups = [{"params": [parameter], "lr": RATE * rate_of(name)} for name, parameter in model.named_parameters()
              if not is_frozen(name)]
    optimizer = torch.optim.SGD(groups, lr=RATE, momentum=0.9)
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[part]), labels[part]).backward()
        optimizer.step()
    return model.state_dict()


def job(folder, **changes):
    keys = {
        "model": {"name": "resnet18", "weights": str(folder / "given.safetensors"), "freeze": FROZEN},
        "data": {"source": "npy", "path": str(folder / "x.npy"), "label_path": str(folder / "y.npy"), "classes": CLASSES,
                 "normalise": False, "shuffle": False, "validation": 0},
        "optimizer": {"name": "sgd", "learning_rate": RATE, "momentum": 0.9, "factors": RATES},
        "training": {"batch": BATCH, "epochs": 1},
        "output": {"tensorboard": False},
    }
    for key, value in changes.items():
        keys[key].update(value) if key in keys else keys.update({key: value})
    (folder / "job.yaml").write_text(json.dumps(keys))  # JSON is YAML
    return str(folder / "job.yaml")


def telar(*words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True)


def trained_by_telar(folder, run, **changes):
    result = telar("train", job(folder, **changes), "--output", str(folder / run), "--quiet")
    assert result.returncode == 0, result.stderr
    return values_of(folder / run)


def values_of(run):
    return safetensors.torch.load_file(run / f"checkpoints/step-{STEPS:08d}/model.safetensors")


def check_equal(given, own, expected):
    moved = 0
    for name, values in own.items():
        if is_frozen(name):
            assert torch.equal(values, given[name]), f"{name} is frozen and has moved"
            continue
        moved += not torch.equal(values, given[name])
        torch.testing.assert_close(values.double(), expected[name], rtol=1e-4, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")
    assert moved == sum(not is_frozen(name) for name in own)


def check_refusals(folder, model):
    def sentence(**changes):
        result = telar("train", job(folder, **changes), "--check")
        assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
        return result.stderr

    torch.save(model.state_dict(), folder / "given.pth")
    assert "is a file of PyTorch" in sentence(model={"weights": str(folder / "given.pth")})
    assert "model.weights: cannot open" in sentence(model={"weights": str(folder / "nowhere")})
    assert "layer1.0.conv1.weight is [64, 64, 3, 3], not [64, 64, 1, 1]" in sentence(model={"name": "resnet50"})
    assert "did you mean 'layer1.0.bn1'?" in sentence(model={"freeze": ["layer1.0.bm1"]})
    assert "'nn' matches no layer or parameter" in sentence(optimizer={"factors": ["nn: 2"]})
    for rule in ("fc", "fc: x", "fc: -1", "fc: nan", "fc: 1e-320"):
        assert f"optimizer.factors: '{rule}' must be PATTERN: FACTOR" in sentence(optimizer={"factors": [rule]})
    assert "is left to train" in sentence(model={"freeze": ["*"]})
    other = telar("train", job(folder, data={"classes": CLASSES + 1}), "--check")
    assert other.returncode == 0, other.stderr
    assert f"the last layer begins anew: module.fc.weight is [{CLASSES}, 512], not [{CLASSES + 1}, 512]" in other.stdout
    frozen = sentence(data={"classes": CLASSES + 1}, model={"freeze": ["fc"]})
    assert f"module.fc.weight is [{CLASSES}, 512], not [{CLASSES + 1}, 512]" in frozen
    # What a run began with is not needed any more.
    (folder / "given.safetensors").unlink()
    result = telar("evaluate", str(folder / "single"), "--data", str(folder / "x.npy"), "--labels", str(folder / "y.npy"))
    assert result.returncode == 0, result.stderr
    again = ["train", str(folder / "single"), "--resume", "--set", "training.epochs=2", "--quiet"]
    result = telar(*again, "--set", "model.weights=others.safetensors")
    assert result.returncode == 2 and "a run takes them at its beginning only" in result.stderr, result.stderr
    result = telar(*again)
    assert result.returncode == 0, result.stderr


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torchvision.models.resnet18(num_classes=CLASSES)
    for name, buffer in model.named_buffers():  # as after some training
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    images = torch.randn(STEPS * BATCH, 3, 64, 64)
    labels = torch.randint(0, CLASSES, (STEPS * BATCH,))
    # In double precision: with f32, PyTorch itself may be off by a hundredth after some steps.
    expected = trained_by_pytorch(model.double(), images.double(), labels)
    model.float()
    given = model.state_dict()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.save(folder / "x.npy", images.numpy())
        numpy.save(folder / "y.npy", labels.numpy().astype("int64"))
        safetensors.torch.save_file({"module." + key: value for key, value in reversed(given.items())},
                                    folder / "given.safetensors")
        check_equal(given, trained_by_telar(folder, "single"), expected)
        # As one worker: batch norms of all samples. Pipelines would have micro-batches.
        check_equal(given, trained_by_telar(folder, "servers", strategy={"name": "sync_ps", "workers": 1}), expected)
        # A run that was killed before its first checkpoint begins again, with the same values.
        shutil.rmtree(folder / "single/checkpoints")
        result = telar("train", str(folder / "single"), "--resume", "--quiet")
        assert result.returncode == 0, result.stderr
        check_equal(given, values_of(folder / "single"), expected)
        check_refusals(folder, model)
    print("model.weights and model.freeze: as PyTorch")


if __name__ == "__main__":
    main()
