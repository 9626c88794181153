"""Data sets of torchvision that are missing, with random images instead. The classes are those of torchvision, or,
where it is not installed, of the stand-in (stand_ins/torchvision)."""
import functools
import inspect
import os

import numpy as np
import torch

from . import forms, randoms
from .pictures import picture, read_picture

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
ATTRIBUTES = 40  # of a face of CelebA


class FakeImages:
    """What a data set does that has random images. `telar_form`: its forms.Images; `telar_key`: its name and split,
    on which the images depend."""

    telar_form = None

    def __len__(self):
        return len(self.data if self.telar_form.layout else self.telar_labels)

    def __getitem__(self, index):
        image, target = self.telar_sample(int(index))
        if getattr(self, "transform", None) is not None:
            image = self.transform(image)
        if getattr(self, "target_transform", None) is not None:
            target = self.target_transform(target)
        return image, target

    def telar_sample(self, index):
        layout = self.telar_form.layout
        if layout == "CHW":
            return picture(np.asarray(self.data[index]).transpose(1, 2, 0)), int(self.labels[index])
        if layout:
            return picture(np.asarray(self.data[index])), int(self.targets[index])
        if not -len(self) <= index < len(self):
            raise IndexError("there is no sample %d of %d" % (index, len(self)))
        index %= len(self)
        form, label = self.telar_form, self.telar_labels[index:index + 1]
        return picture(randoms.images(form.size, label, len(form.classes), *self.telar_key, index)[0]), \
            self.telar_target(index)

    def telar_target(self, index):
        return int(self.telar_labels[index])


class FakeFaces(FakeImages):
    """CelebA, whose targets the script chooses."""

    def telar_target(self, index):
        draw = randoms.generator(*self.telar_key, "target", index)
        values = {"attr": torch.from_numpy(draw.randint(0, 2, ATTRIBUTES)),
                  "identity": torch.tensor(int(self.telar_labels[index]) + 1),
                  "bbox": torch.from_numpy(draw.randint(0, 100, 4)),
                  "landmarks": torch.from_numpy(draw.randint(0, 178, 10))}
        chosen = tuple(values[one] for one in self.telar_targets)
        return chosen if len(chosen) > 1 else chosen[0] if chosen else None


class FakeFolder(FakeImages):
    """A folder of images by classes. Scripts choose among `samples`, so `loader` makes an image from its path."""

    def __len__(self):
        return len(self.samples)

    def telar_sample(self, index):
        path, target = self.samples[index]
        return self.loader(path), target


def fake_picture(path):
    # The copies of the user's folder have other paths.
    inside = path.split(os.sep)[-3:]
    label = np.array([forms.FOLDER_CLASSES.index(inside[-2])])
    return picture(randoms.images(forms.PHOTO, label, len(forms.FOLDER_CLASSES), "folder", *inside)[0])


def give(dataset, **values):
    """Sets attributes, except those that the class computes."""
    for name, value in values.items():
        if not isinstance(getattr(type(dataset), name, None), property):
            setattr(dataset, name, value)


def form_and_split(name, given):
    form = forms.EMNIST.get(given.get("split")) if name == "EMNIST" else forms.IMAGES[name]
    if form is None:
        raise ValueError("EMNIST has no split %r, but %s" % (given.get("split"), ", ".join(forms.EMNIST)))
    split = next(iter(form.counts))
    if name == "EMNIST" or form.parameters == forms.TRAIN:
        split = "train" if given.get("train", True) else "test"
    elif "split" in given:
        split = given["split"]
    if split not in form.counts:
        raise ValueError("%s has no split %r, but %s" % (name, split, ", ".join(form.counts)))
    return form, split


def fill(dataset, name, given, record):
    """Makes a data set of its form. `given`: the arguments of its constructor by name."""
    form, split = form_and_split(name, given)
    count = form.counts[split]
    key = (name, given["split"], split) if name == "EMNIST" else (name, split)
    labels = randoms.labels(count, len(form.classes), *key) + form.first
    if split == "unlabeled":
        labels[:] = -1
    give(dataset, telar_form=form, telar_key=key, root=given.get("root"), split=split, train=split == "train",
         transform=given.get("transform"), target_transform=given.get("target_transform"), transforms=None,
         classes=form.classes, class_to_idx={one: at for at, one in enumerate(form.classes)})
    if not form.layout:
        chosen = given.get("target_type", "attr")
        give(dataset, telar_labels=labels, targets=labels.tolist(),
             telar_targets=[chosen] if isinstance(chosen, str) else list(chosen))
        record.fake(name, "%s %d" % (split, count))
        return
    images = randoms.images(form.size, labels, len(form.classes), *key)
    if form.layout == "HW":
        give(dataset, data=torch.from_numpy(images[..., 0]), targets=torch.from_numpy(labels))
    elif form.layout == "HWC":
        give(dataset, data=images, targets=labels.tolist())
    else:
        give(dataset, data=np.ascontiguousarray(images.transpose(0, 3, 1, 2)), labels=labels)
    record.fake(name, "%s %d" % (split, count))


def fill_folder(dataset, given, record):
    root = os.fspath(given["root"])
    if given.get("loader") is not None:
        raise FileNotFoundError("there is no folder %s, and what the script's own `loader` makes of a file is not "
                                "known: put some files there" % root)
    names = list(forms.FOLDER_CLASSES)
    samples = sorted((os.path.join(root, names[at % len(names)], "%04d.png" % at), at % len(names))
                     for at in range(forms.FOLDER_IMAGES))
    set_folder(dataset, given, names, samples, fake_picture)
    dataset.telar_form = forms.Images(forms.PHOTO, forms.FOLDER_CLASSES, {})
    record.fake("folders of images", "%s %d in %d classes" % (os.path.basename(os.path.normpath(root)), len(samples),
                                                             len(names)))


def read_folder(dataset, given):
    """What the stand-in does with a folder that is there."""
    root = os.fspath(given["root"])
    names = sorted(one.name for one in os.scandir(root) if one.is_dir())
    samples = [(os.path.join(folder, one), at) for at, name in enumerate(names)
               for folder, _, files in sorted(os.walk(os.path.join(root, name)))
               for one in sorted(files) if one.lower().endswith(ENDINGS)]
    if not samples:
        raise FileNotFoundError("there is no image in a folder of %s" % root)
    set_folder(dataset, given, names, samples, given.get("loader") or read_picture)


def set_folder(dataset, given, names, samples, loader):
    give(dataset, root=given["root"], transform=given.get("transform"), transforms=None, loader=loader,
         target_transform=given.get("target_transform"), classes=names,
         class_to_idx={one: at for at, one in enumerate(names)}, samples=samples, imgs=samples,
         targets=[target for _, target in samples])


def kind_of(name):
    return {"CelebA": FakeFaces, "ImageFolder": FakeFolder}.get(name, FakeImages)


def stand_in(name, parameters, record):
    """A class with the parameters of torchvision's."""
    def init(self, *arguments, **options):
        if len(arguments) > len(parameters):
            raise TypeError("%s has at most %d arguments" % (name, len(parameters)))
        given = dict(zip(parameters, arguments), **options)
        if name != "ImageFolder":
            fill(self, name, given, record)
        elif os.path.isdir(given["root"]):
            read_folder(self, given)
        else:
            fill_folder(self, given, record)

    members = {"__init__": init, "__module__": "torchvision.datasets"}
    return type(name, (kind_of(name), torch.utils.data.Dataset), members)


def fill_the_missing(name, kind, create, known, record):
    """Lets a class of torchvision have random images where its data are missing; it downloads nothing. `known`: all
    such classes; some call the constructor of another one."""
    signature = inspect.signature(create)
    names = [one for one, what in signature.parameters.items() if what.kind is what.VAR_KEYWORD]

    @functools.wraps(create)
    def init(self, *arguments, **options):
        if next(one for one in type(self).__mro__ if one in known) is not kind:
            return create(self, *arguments, **options)
        given = dict(signature.bind(self, *arguments, **options).arguments)
        given.pop("self", None)
        for extra in names:
            given.update(given.pop(extra, {}))
        if "download" in given:
            given["download"] = False
        try:
            return create(self, **given)
        except (RuntimeError, FileNotFoundError, ModuleNotFoundError):  # SVHN is read with SciPy
            if name == "ImageFolder" and os.path.isdir(given["root"]):
                raise
            return fill_folder(self, given, record) if name == "ImageFolder" else fill(self, name, given, record)

    kind.__init__ = init
    for member, fake in inspect.getmembers(kind_of(name)):
        if member in ("__len__", "__getitem__"):
            setattr(kind, member, either(fake, getattr(kind, member)))
        elif member.startswith("telar_"):
            setattr(kind, member, fake)


def either(fake, real):
    def method(self, *arguments):
        return (real if self.telar_form is None else fake)(self, *arguments)
    return method


def replace_missing(datasets, record, is_stand_in):
    """`datasets`: the module torchvision.datasets."""
    parameters = {name: form.parameters for name, form in forms.IMAGES.items()}
    parameters.update(EMNIST=forms.EMNIST_PARAMETERS, ImageFolder=forms.FOLDER_PARAMETERS)
    if is_stand_in:
        for name, of_init in parameters.items():
            setattr(datasets, name, stand_in(name, of_init, record))
        return
    kinds = {name: getattr(datasets, name) for name in parameters if hasattr(datasets, name)}
    for name, (kind, create) in {name: (kind, kind.__init__) for name, kind in kinds.items()}.items():
        fill_the_missing(name, kind, create, set(kinds.values()), record)
