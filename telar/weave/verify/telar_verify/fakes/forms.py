"""The forms of known data sets: sizes, classes and numbers of samples of the real ones."""

TRAIN = ("root", "train", "transform", "target_transform", "download")
SPLIT = ("root", "split", "transform", "target_transform", "download")
PHOTO = (240, 320, 3)  # where the real ones have different sizes
DIGITS = tuple("0123456789")


class Images:
    """A data set of images. `size`: height, width, channels. `counts`: samples by split. `layout`: how the real
    one keeps its images, which scripts may use directly; empty: as files. `parameters`: of its constructor, as
    far as they are used. `first`: its least label."""

    def __init__(self, size, classes, counts, layout="", parameters=SPLIT, first=0):
        self.size, self.counts, self.layout, self.parameters = size, counts, layout, parameters
        self.classes = list(classes) if isinstance(classes, tuple) else ["class %d" % one for one in range(classes)]
        self.first = first


CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
HALVES = {"train": 60000, "test": 10000}

# Of torchvision, by the name of the class.
IMAGES = {
    "MNIST": Images((28, 28, 1), DIGITS, HALVES, "HW", TRAIN),
    "FashionMNIST": Images((28, 28, 1), CLOTHES, HALVES, "HW", TRAIN),
    "KMNIST": Images((28, 28, 1), 10, HALVES, "HW", TRAIN),
    "USPS": Images((16, 16, 1), DIGITS, {"train": 7291, "test": 2007}, "", TRAIN),
    "CIFAR10": Images((32, 32, 3), CIFAR, {"train": 50000, "test": 10000}, "HWC", TRAIN),
    "CIFAR100": Images((32, 32, 3), 100, {"train": 50000, "test": 10000}, "HWC", TRAIN),
    "SVHN": Images((32, 32, 3), DIGITS, {"train": 73257, "test": 26032, "extra": 531131}, "CHW"),
    "STL10": Images((96, 96, 3), STL, {"train": 5000, "test": 8000, "unlabeled": 100000, "train+unlabeled": 105000},
                    "CHW", ("root", "split", "folds", "transform", "target_transform", "download")),
    "CelebA": Images((218, 178, 3), 10177, {"train": 162770, "valid": 19867, "test": 19962, "all": 202599}, "",
                     ("root", "split", "target_type", "transform", "target_transform", "download")),
    "ImageNet": Images(PHOTO, 1000, {"train": 1281167, "val": 50000}, "",
                       ("root", "split", "transform", "target_transform")),
    "Food101": Images(PHOTO, 101, {"train": 75750, "test": 25250}),
    "Flowers102": Images(PHOTO, 102, {"train": 1020, "val": 1020, "test": 6149}),
    "GTSRB": Images((48, 48, 3), 43, {"train": 26640, "test": 12630}),
    "DTD": Images(PHOTO, 47, {"train": 1880, "val": 1880, "test": 1880}, "",
                  ("root", "split", "partition", "transform", "target_transform", "download")),
    "Caltech101": Images(PHOTO, 101, {"all": 8677}, "",
                         ("root", "target_type", "transform", "target_transform", "download")),
    "Caltech256": Images(PHOTO, 257, {"all": 30607}, "", ("root", "transform", "target_transform", "download")),
}

LETTERS = {"train": 124800, "test": 20800}
# EMNIST has one form for each `split`.
EMNIST = {
    "byclass": Images((28, 28, 1), 62, {"train": 697932, "test": 116323}, "HW"),
    "bymerge": Images((28, 28, 1), 47, {"train": 697932, "test": 116323}, "HW"),
    "balanced": Images((28, 28, 1), 47, {"train": 112800, "test": 18800}, "HW"),
    "letters": Images((28, 28, 1), 26, LETTERS, "HW", first=1),
    "digits": Images((28, 28, 1), 10, {"train": 240000, "test": 40000}, "HW"),
    "mnist": Images((28, 28, 1), 10, HALVES, "HW"),
}
EMNIST_PARAMETERS = ("root", "split", "train", "transform", "target_transform", "download")

# A folder of images, whose form only its files have.
FOLDER_CLASSES = ("a", "b")
FOLDER_IMAGES = 200
FOLDER_PARAMETERS = ("root", "transform", "target_transform", "loader", "is_valid_file")

# Of keras.datasets: the shape of a sample, classes, training and test samples.
ARRAYS = {
    "mnist": ((28, 28), 10, 60000, 10000),
    "fashion_mnist": ((28, 28), 10, 60000, 10000),
    "cifar10": ((32, 32, 3), 10, 50000, 10000),
    "cifar100": ((32, 32, 3), 100, 50000, 10000),
}
# Words as numbers: classes, training and test samples, the largest number.
WORDS = {"imdb": (2, 25000, 25000, 88586), "reuters": (46, 8982, 2246, 30979)}
HOUSES = (13, 404, 102)
