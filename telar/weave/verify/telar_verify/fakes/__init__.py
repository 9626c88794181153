"""`--fake-data`: random data in the place of data sets that are missing."""
import importlib.util
import os
import sys

STAND_INS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "stand_ins")
UNKNOWN = ("the form of what is missing is not known, so --fake-data cannot replace it: put a small file of that form "
           "there")
OFFER = "--fake-data replaces missing data sets of torchvision and Keras by random data"
MISSING = ("URLError", "HTTPError", "ConnectionError", "gaierror", "URL fetch failure", "Dataset not found",
           "No module named 'torchvision'")

prepare = None  # what the stand-in of torchvision does with itself when it is imported


def advice(error, text, is_fake, written):
    """What to add to the message of an exception that ended the script. `written`: paths."""
    is_missing = isinstance(error, FileNotFoundError) and not any(
        os.path.basename(one) == os.path.basename(str(error.filename)) for one in written)
    if not is_missing and not any(one in text for one in MISSING):
        return ""
    return "; " + (UNKNOWN if is_fake else OFFER)


def install_for_torch(record):
    global prepare
    from . import images, weights

    def prepare(package):
        images.replace_missing(package.datasets, record, is_stand_in=True)
        package.models.replace_pretrained(record)
        record.stand_ins.add("torchvision")

    weights.replace_downloads(record)
    if importlib.util.find_spec("torchvision") is None:
        sys.path.append(STAND_INS)
        return
    try:
        import torchvision
    except Exception:  # one that does not fit this PyTorch; the script will say so
        return
    images.replace_missing(torchvision.datasets, record, is_stand_in=False)


def install_for_keras(record, settings):
    from . import keras_files

    keras_files.replace_missing(record, os.path.dirname(settings["result"]), settings["limit_samples"])
