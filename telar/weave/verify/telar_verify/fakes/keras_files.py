"""Files that Keras would download, and folders of data that are missing, with random content: Keras itself makes its
data sets of them."""
import functools
import gzip
import inspect
import json
import os
import pickle
import struct
import sys
import tempfile

import numpy as np
import tensorflow as tf

from . import forms, randoms
from .png import write_png

WORDS_OF_A_TEXT = 40_000
REVIEWS, WORDS_OF_A_REVIEW = 200, 60
PHOTOS, PHOTO = 120, (96, 128, 3)
WEIGHTS = (".h5", ".keras", ".weights")
# Archives that tutorials unpack, and the folders in them; None: they have texts.
ARCHIVES = {
    "flower_photos": ["daisy", "dandelion", "roses", "sunflowers", "tulips"],
    "cats_and_dogs_filtered": ["train/cats", "train/dogs", "validation/cats", "validation/dogs"],
    "PetImages": ["Cat", "Dog"],
    "aclImdb": ["train/neg", "train/pos", "train/unsup", "test/neg", "test/pos"],
    "stack_overflow_16k": ["train/csharp", "train/java", "train/javascript", "train/python",
                           "test/csharp", "test/java", "test/javascript", "test/python"],
}
TEXTS = ("aclImdb", "stack_overflow_16k")


class Maker:
    """Makes files in a folder. `most`: of the samples of each part of a data set; 0: as many as the real one has."""

    def __init__(self, folder, most, is_keras_3):
        self.folder, self.most, self.is_keras_3 = folder, most, is_keras_3

    def count(self, real):
        return min(real, self.most) if self.most else real

    def path(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def images(self, name, split):
        """Images and labels of a data set of keras.datasets."""
        shape, classes, *counts = forms.ARRAYS[name]
        count = self.count(counts[split == "test"])
        labels = randoms.labels(count, classes, name, split)
        images = randoms.images(shape if len(shape) == 3 else shape + (1,), labels, classes, name, split)
        return images.reshape((count,) + shape), labels

    def npz(self, name):
        """The file of a data set of keras.datasets."""
        path = self.path(name + ".npz")
        if name == "mnist":
            (x, y), (a, b) = self.images(name, "train"), self.images(name, "test")
            y, b = y.astype(np.uint8), b.astype(np.uint8)
            np.savez(path, x_train=x, y_train=y, x_test=a, y_test=b)
        elif name == "imdb":
            (x, y), (a, b) = self.numbered_words(name, "train"), self.numbered_words(name, "test")
            np.savez(path, x_train=x, y_train=y, x_test=a, y_test=b)
        elif name == "reuters":
            np.savez(path, **dict(zip("xy", self.numbered_words(name, "all"))))
        else:
            columns, rows = (13, 506) if name == "boston_housing" else (8, 20640)
            draw = randoms.generator(name)
            rows = self.count(rows)
            np.savez(path, x=draw.uniform(0, 100, (rows, columns)), y=draw.uniform(5, 50, rows))
        return path

    def numbered_words(self, name, split):
        classes, train, test, largest = forms.WORDS[name]
        count = self.count({"train": train, "test": test, "all": train + test}[split])
        draw = randoms.generator(name, split)
        texts = np.empty(count, object)
        for at, length in enumerate(draw.randint(20, 200, count)):
            texts[at] = np.minimum(draw.geometric(0.002, length), largest).tolist()
        return texts, randoms.labels(count, classes, name, split)

    def cifar(self, name):
        """The folder that CIFAR's archive is unpacked to."""
        unpacked = self.path(name)
        inside = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}[name]
        folder = os.path.join(unpacked, inside) if self.is_keras_3 else unpacked
        os.makedirs(folder, exist_ok=True)
        parts = {"train": ("train",), "test": ("test",)} if name == "cifar100" else {
            "train": ["data_batch_%d" % one for one in range(1, 6)], "test": ("test_batch",)}
        for split, files in parts.items():
            x, y = self.images(name, split)
            if name == "cifar10" and split == "train":
                x, y = np.resize(x, (50000,) + x.shape[1:]), np.resize(y, 50000)  # so many are read (cut_again)
            size = len(x) // len(files)
            for at, file in enumerate(files):
                part = slice(at * size, (at + 1) * size)
                data = x[part].transpose(0, 3, 1, 2).reshape(size, -1)
                content = {b"data": data, b"labels": y[part].tolist(), b"fine_labels": y[part].tolist(),
                           b"coarse_labels": (y[part] // 5).tolist()}
                with open(os.path.join(folder, file), "wb") as out:
                    pickle.dump(content, out, protocol=4)
        return unpacked

    def idx(self, name):
        """One of the files of Fashion-MNIST."""
        path = self.path(name)
        values = self.images("fashion_mnist", "train" if name.startswith("train") else "test")
        values = values[0] if "images" in name else values[1].astype(np.uint8)
        with gzip.open(path, "wb", compresslevel=1) as out:
            out.write(struct.pack(">HBB%dI" % values.ndim, 0, 8, values.ndim, *values.shape) + values.tobytes())
        return path

    def word_index(self, name):
        path = self.path(name)
        with open(path, "w") as out:
            json.dump({"word%d" % one: one for one in range(1, 2000)}, out)
        return path

    def text(self, name):
        path = self.path(name)
        with open(path, "w") as out:
            out.write(randoms.text(WORDS_OF_A_TEXT, name))
        return path

    def folders(self, root, names, are_texts, key):
        """Folders of texts or images, one for each class."""
        for number, name in enumerate(names):
            folder = os.path.join(root, name)
            os.makedirs(folder, exist_ok=True)
            count = self.count(REVIEWS if are_texts else PHOTOS)
            if are_texts:
                for at in range(count):
                    with open(os.path.join(folder, "%d.txt" % at), "w") as out:
                        out.write(randoms.text(WORDS_OF_A_REVIEW, key, name, at))
                continue
            for at, image in enumerate(randoms.images(PHOTO, np.full(count, number), len(names), key, name)):
                write_png(os.path.join(folder, "%04d.png" % at), image)
        return root

    def known(self, name):
        """The path of the file or folder with this name; None if its form is not known."""
        stem = name.partition(".")[0]
        if name.endswith(".npz") and stem in ("mnist", "imdb", "reuters", "boston_housing", "california_housing"):
            return self.npz(stem)
        if name.startswith("cifar-"):
            return self.cifar("cifar100" if name.startswith("cifar-100") else "cifar10")
        if name.endswith("-ubyte.gz"):
            return self.idx(name)
        if name.endswith("_word_index.json"):
            return self.word_index(name)
        return self.text(name) if name.endswith(".txt") else None

    def archive(self, name):
        """The folder that an archive of this name is unpacked to; None if it is not known."""
        known = next((one for one in ARCHIVES if name.lower().startswith(one.lower())), None)
        if known is None:
            return None
        unpacked = self.path(name.partition(".")[0] + "_unpacked")
        self.folders(os.path.join(unpacked, known), ARCHIVES[known], known in TEXTS, known)
        return unpacked, known


def cached(options):
    """Whether Keras has the file already."""
    name = os.path.basename(str(options.get("fname") or options.get("origin")))
    folder = options.get("cache_dir") or os.path.expanduser(os.environ.get("KERAS_HOME", "~/.keras"))
    path = os.path.join(folder, options.get("cache_subdir") or "datasets", name)
    return any(os.path.exists(one) for one in (path, path + "_extracted", path + ".tar.gz"))


def get_or_make(get_file, maker, record):
    signature = inspect.signature(get_file)

    @functools.wraps(get_file)
    def get(*arguments, **options):
        given = signature.bind(*arguments, **options).arguments
        if cached(given):
            return get_file(*arguments, **options)
        name = os.path.basename(str(given.get("fname") or given.get("origin")))
        origin = os.path.basename(str(given.get("origin") or name))
        if name.endswith(WEIGHTS):
            record.fake("weights", name)
            return maker.path(name)
        path = maker.known(name) or maker.known(origin)
        if path is None:
            archive = maker.archive(name) or maker.archive(origin)
            if archive is not None:
                # Keras 3 returns the folder of what it has unpacked, Keras 2 what the script calls the file.
                path = archive[0] if maker.is_keras_3 else os.path.join(archive[0], archive[1])
        if path is None:
            raise FileNotFoundError("%s is missing" % name)
        record.fake(name, "")
        return path

    return get


def folder_or_made(function, maker, are_texts, record):
    """A function that makes a dataset of a folder."""
    @functools.wraps(function)
    def make(directory, *arguments, **options):
        if not os.path.isdir(directory):
            inside = os.path.basename(os.path.normpath(str(directory)))
            record.fake("folders of texts" if are_texts else "folders of images", inside)
            names = options.get("class_names") or forms.FOLDER_CLASSES
            directory = maker.folders(maker.path("folder of " + inside), names, are_texts, inside)
        return function(directory, *arguments, **options)

    return make


def load_or_settle(load, maker):
    """Fills a model with random weights, the same in every process, in the place of those that are missing."""
    @functools.wraps(load)
    def load_weights(self, path, *arguments, **options):
        if os.path.exists(str(path)) or not str(path).startswith(maker.folder):
            return load(self, path, *arguments, **options)
        values = []
        for at, value in enumerate(self.get_weights()):
            if value.size and not (value == value.flat[0]).all():  # not ones and zeros of normalisation
                draw = randoms.generator(os.path.basename(str(path)), at)
                inputs = np.prod(value.shape[:-1] if value.shape[-1] > 1 else value.shape[:-2])
                value = (draw.standard_normal(value.shape) * np.sqrt(2 / max(1, inputs))).astype(value.dtype)
            values.append(value)
        self.set_weights(values)

    return load_weights


def cut_again(load, most):
    """CIFAR-10 with the samples that --limit-samples allows, because Keras reads 50,000 in any case."""
    @functools.wraps(load)
    def load_data():
        (x, y), test = load()
        return (x[:most], y[:most]), test

    return load_data


def replace_everywhere(name, old, new):
    """Replaces a function in all modules of Keras that have it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def replace_missing(record, folder, most):
    """Replaces Keras' downloads. `folder`: where the files are made."""
    utils = tf.keras.utils
    is_keras_3 = "force_download" in inspect.signature(utils.get_file).parameters
    maker = Maker(tempfile.mkdtemp(prefix="fakes-", dir=folder), most, is_keras_3)
    load = tf.keras.datasets.cifar10.load_data
    if most:
        replace_everywhere("load_data", load, cut_again(load, most))
    replace_everywhere("get_file", utils.get_file, get_or_make(utils.get_file, maker, record))
    for name in ("image_dataset_from_directory", "text_dataset_from_directory"):
        function = getattr(utils, name, None)
        if function is not None:
            made = folder_or_made(function, maker, name.startswith("text"), record)
            replace_everywhere(name, function, made)
    for kind in {tf.keras.Model, tf.keras.Sequential}:
        if "load_weights" in vars(kind):
            kind.load_weights = load_or_settle(kind.load_weights, maker)
