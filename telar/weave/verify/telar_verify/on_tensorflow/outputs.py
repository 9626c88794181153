"""Files that TensorFlow writes by itself, unseen by Python's hooks."""
import os
import re

import tensorflow as tf
from tensorflow.python.lib.io import file_io
from tensorflow.python.ops import gen_io_ops

TEMPORARY = re.compile(r"\.tmp[0-9a-f]{32}$")  # a file that is renamed when it is complete


def text_of(path):
    path = path.numpy() if hasattr(path, "numpy") else path
    return os.fsdecode(path) if isinstance(path, (bytes, str, os.PathLike)) else None


def watch_saves(watch):
    def written(path):
        path = text_of(path)
        if path is not None and "://" not in path:
            watch.written(TEMPORARY.sub("", path), keeps=False)

    create = file_io.FileIO.__init__

    def init_file(self, name, mode="r", *arguments, **options):
        if any(letter in mode for letter in "wa+"):
            written(name)
        create(self, name, mode, *arguments, **options)

    file_io.FileIO.__init__ = init_file
    save, write = gen_io_ops.save_v2, gen_io_ops.write_file

    def save_checkpoint(prefix, *arguments, **options):
        path = text_of(prefix)
        if path is not None:
            written(path.partition("_temp/")[0] + ".index")
        return save(prefix, *arguments, **options)

    def write_file(filename, *arguments, **options):
        written(filename)
        return write(filename, *arguments, **options)

    gen_io_ops.save_v2, gen_io_ops.write_file = save_checkpoint, write_file
    create_writer = tf.summary.create_file_writer

    def file_writer(logdir, *arguments, **options):
        written(os.path.join(text_of(logdir), "events"))
        return create_writer(logdir, *arguments, **options)

    tf.summary.create_file_writer = file_writer
    try:
        import h5py
    except ImportError:
        return
    open_file = h5py.File.__init__

    def init_h5(self, name, mode="r", *arguments, **options):
        if mode != "r" and isinstance(name, (str, bytes, os.PathLike)):
            written(name)
        open_file(self, name, mode, *arguments, **options)

    h5py.File.__init__ = init_h5
