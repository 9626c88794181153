#!/usr/bin/env python3
"""Checks `telar weave --verify --fake-data`: the form of the random data, and what is said of them.

    check_fakes.py TELAR

The data sets of torchvision are those of its stand-in, or, where torchvision is installed, its own. With the python
of an environment that has TensorFlow, those of Keras are checked, too.
"""
import importlib.util
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HARNESS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "telar", "weave", "verify")
MISSING = "import numpy as np\ntable = np.load('measured.npy')\n"
KERAS = """import tensorflow as tf
tf.keras.utils.set_random_seed(3)
(x, y), test = tf.keras.datasets.fashion_mnist.load_data()
text = open(tf.keras.utils.get_file("poems.txt", "https://example.org/poems.txt")).read()
photos = tf.keras.utils.image_dataset_from_directory("photos/train", image_size=(28, 28), color_mode="grayscale")
model = tf.keras.Sequential([tf.keras.Input((28, 28)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x / 255.0, y, batch_size=20, epochs=2)
print(len(x), len(text), model.evaluate(photos))
"""


def observed(code, seed):
    """What the code prints in a process with the fakes and its own random state."""
    start = ("import random, sys, torch, numpy; sys.path.insert(0, %r)\n"
             "from telar_verify.record import Record; from telar_verify import fakes\n"
             "record = Record('/nowhere', {'steps': 5, 'limit_samples': 0, 'target': 'ddp'}); fakes.install_for_torch(record)\n"
             "torch.manual_seed(%d); numpy.random.seed(%d); random.seed(%d)\n" % (HARNESS, seed, seed, seed))
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", start + code], capture_output=True, text=True,
                            env=dict(os.environ, PYTHONHASHSEED=str(seed)))
    assert answer.returncode == 0, answer.stderr[-800:]
    return answer.stdout.strip()


def run(telar, folder, script, *options):
    with open(folder + "/train.py", "w") as file:
        file.write(script)
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"],
                       HOME=folder, TORCH_HOME=folder)
    return subprocess.run([telar, "weave", "--verify", "train.py"] + list(options), cwd=folder, env=environment,
                          capture_output=True, text=True)


def have_the_real_form(telar, folder):
    """Name, samples, shape, greatest label, and the types of what scripts use directly."""
    code = """
from torchvision import datasets, transforms
for name, options in (("MNIST", {}), ("FashionMNIST", {"train": False}), ("CIFAR10", {}), ("CIFAR100", {"train": False}),
                      ("SVHN", {"split": "test"}), ("STL10", {"split": "train"}), ("CelebA", {"split": "valid"}),
                      ("EMNIST", {"split": "letters"})):
    one = getattr(datasets, name)("nowhere", transform=transforms.ToTensor(), download=True, **options)
    x, y = one[len(one) - 1]
    labels = getattr(one, "targets", getattr(one, "labels", None))
    data = getattr(one, "data", None)
    print(name, len(one), tuple(x.shape), float(x.min()) >= 0 and float(x.max()) <= 1, int(max(labels)) if name != "CelebA"
          else tuple(y.shape), type(data).__name__, tuple(getattr(data, "shape", ())))
    assert torch.as_tensor(y).dtype == torch.int64
"""
    wanted = """MNIST 60000 (1, 28, 28) True 9 Tensor (60000, 28, 28)
FashionMNIST 10000 (1, 28, 28) True 9 Tensor (10000, 28, 28)
CIFAR10 50000 (3, 32, 32) True 9 ndarray (50000, 32, 32, 3)
CIFAR100 10000 (3, 32, 32) True 99 ndarray (10000, 32, 32, 3)
SVHN 26032 (3, 32, 32) True 9 ndarray (26032, 3, 32, 32)
STL10 5000 (3, 96, 96) True 9 ndarray (5000, 3, 96, 96)
CelebA 19867 (3, 218, 178) True (40,) NoneType ()
EMNIST 124800 (1, 28, 28) True 26 Tensor (124800, 28, 28)"""
    found = observed(code, 1)
    return [] if found == wanted else [found]


def are_equal_in_all_processes(telar, folder):
    """Samples, labels and weights do not depend on a process' random state, and leave it as it is."""
    code = """
from torchvision import datasets, models
import hashlib
before = torch.get_rng_state(), numpy.random.get_state()[1].tolist(), random.getstate()
bits = hashlib.md5()
for one in (datasets.MNIST("nowhere"), datasets.Food101("nowhere"), datasets.ImageFolder("nowhere/train")):
    image, label = one[7]
    bits.update(numpy.asarray(image).tobytes() + bytes([label]))
assert torch.equal(before[0], torch.get_rng_state()) and before[1:] == (
    numpy.random.get_state()[1].tolist(), random.getstate())
for value in models.resnet18(pretrained=True).state_dict().values():
    bits.update(value.numpy().tobytes())
print(bits.hexdigest())
"""
    return [] if observed(code, 1) == observed(code, 2) else ["they differ"]


def transforms_are_right(telar, folder):
    """On an image whose results are known."""
    code = """
from torchvision import transforms
from telar_verify.fakes.pictures import picture
image = picture(numpy.arange(12, dtype=numpy.uint8).reshape(3, 4) * 20)
tensor = transforms.ToTensor()
def show(one):
    print((tensor(one(image)) * 255).round().int().flatten().tolist())
show(transforms.CenterCrop(2)); show(transforms.Pad(1)); show(transforms.RandomHorizontalFlip(1.0))
show(transforms.Lambda(lambda one: one.convert("RGB")))
print(transforms.Normalize((0.5,), (0.25,))(torch.ones(1, 1, 1)).item(), transforms.RandomCrop(2)(image).size)
"""
    found = observed(code, 1).splitlines()
    numbers = [20 * one for one in range(12)]
    rows = [numbers[0:4], numbers[4:8], numbers[8:12]]
    padded = [[0] * 6] + [[0] + row + [0] for row in rows] + [[0] * 6]
    expected = [str([20, 40, 100, 120]), str(sum(padded, [])), str(sum([row[::-1] for row in rows], [])),
                str(numbers * 3), "2.0 (2, 2)"]
    return ["%s, not %s" % pair for pair in zip(found, expected) if pair[0] != pair[1]]


def compares_on_random_data(telar, folder):
    with open(HERE + "/verify/fake_images.py") as file:
        script = file.read()
    answer = run(telar, folder, script, "--fake-data", "--steps", "2")
    words = ["data           random", "CIFAR10 (train 50000)", "folders of images (val 200 in 2 classes)", "resnet18",
             "does what the sequential one does, on random data"]
    if importlib.util.find_spec("torchvision") is None:
        words.append("torchvision is not installed: a stand-in")
    missing = [one for one in words if one not in answer.stdout]
    complaints = [answer.stdout + answer.stderr[-500:]] if answer.returncode or missing else []
    answer = run(telar, folder, script)
    if answer.returncode != 2 or "--fake-data replaces missing data sets" not in answer.stderr:
        complaints.append("without the option: exit code %d, %s" % (answer.returncode, answer.stderr[-500:]))
    return complaints


def says_what_is_unknown(telar, folder):
    with open(HERE + "/verify/noisy.py") as file:
        script = file.read()
    complaints = []
    answer = run(telar, folder, script, "--fake-data")
    if answer.returncode or "random data" in answer.stdout:
        complaints.append("a script without missing data: " + answer.stdout)
    answer = run(telar, folder, MISSING + script, "--fake-data")
    if answer.returncode != 2 or "measured.npy" not in answer.stderr or "put a small file" not in answer.stderr:
        complaints.append("a missing table: exit code %d, %s" % (answer.returncode, answer.stderr[-500:]))
    answer = run(telar, folder, "from torchvision.transforms import v2\n" + script, "--fake-data")
    if importlib.util.find_spec("torchvision") is None and "install torchvision" not in answer.stderr:
        complaints.append("what the stand-in has not: " + answer.stderr[-500:])
    return complaints


def serves_keras(telar, folder):
    complaints = []
    # With Horovod every process says how many files it finds.
    quiet = "".join(line for line in KERAS.splitlines(True) if "photos =" not in line).replace("photos", "*test")
    for script, options in ((KERAS, ["--target", "tf-distribute"]), (quiet, ["--limit-samples", "200"])):
        answer = run(telar, folder, script, "--fake-data", *options)
        if answer.returncode or "on random data" not in answer.stdout or "poems.txt" not in answer.stdout:
            complaints.append(answer.stdout + answer.stderr[-800:])
    answer = run(telar, folder, KERAS.replace("poems.txt", "cars.data"), "--fake-data")
    if answer.returncode != 2 or "cars.data is missing" not in answer.stderr:
        complaints.append("an unknown file: exit code %d, %s" % (answer.returncode, answer.stderr[-500:]))
    answer = run(telar, folder, KERAS, "--limit-samples", "20")
    if answer.returncode != 2 or "--limit-samples" not in answer.stderr:
        complaints.append("--limit-samples without --fake-data: exit code %d" % answer.returncode)
    return complaints


def main():
    telar = os.path.abspath(sys.argv[1])
    checks = []
    if importlib.util.find_spec("torch") is not None:
        checks += [have_the_real_form, are_equal_in_all_processes, transforms_are_right, compares_on_random_data,
                   says_what_is_unknown]
    if importlib.util.find_spec("tensorflow") is not None:
        checks.append(serves_keras)
    failed = 0
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            complaints = check(telar, folder)
        print("%-6s %s" % ("FAILED" if complaints else "ok", check.__name__.replace("_", " ")), flush=True)
        for complaint in complaints:
            print("       " + complaint, flush=True)
        failed += bool(complaints)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
