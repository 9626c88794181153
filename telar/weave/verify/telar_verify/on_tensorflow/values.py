"""Values of tensors and batches."""
import hashlib

import numpy as np
import tensorflow as tf

MOST_VALUES = 1 << 16  # of a gradient, that are kept for the comparison; of a larger one, evenly spread ones


def value_of(tensor):
    """The value of a tensor or variable as an array."""
    value = np.array(tf.convert_to_tensor(tensor))
    return value if value.dtype.kind in "biufcSUO" else value.astype("float32")


def some_values(tensor):
    values = value_of(tensor).astype("float32").ravel()
    return values[::max(1, values.size // MOST_VALUES)].copy()


def digest(value):
    return hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()


def is_composite(part):
    return isinstance(part, (tf.RaggedTensor, tf.SparseTensor))


def copied(batch):
    """The batch with arrays in place of tensors; None if it has parts that cannot be joined."""
    parts = tf.nest.flatten(batch)
    if any(is_composite(part) for part in parts):
        return None
    return tf.nest.pack_sequence_as(batch, [value_of(part) if tf.is_tensor(part) else part for part in parts])


def joined(parts):
    """The batch of all ranks; tensors as a dataset gives them."""
    def join(*values):
        if not isinstance(values[0], np.ndarray):
            return values[0]
        return tf.convert_to_tensor(np.concatenate(values) if values[0].ndim else values[0])

    return tf.nest.map_structure(join, *parts)


def form_of(batch):
    """The structure of a batch, with the number of axes of each component."""
    if isinstance(batch, (tuple, list)):
        return [form_of(part) for part in batch]
    if isinstance(batch, dict):
        return {name: form_of(part) for name, part in batch.items()}
    return len(getattr(batch, "shape", ()))


def size_of(batch):
    """The number of samples in a batch."""
    for part in tf.nest.flatten(batch):
        shape = getattr(part, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(part.nrows() if isinstance(part, tf.RaggedTensor) else part.shape[0])
    return 1


def sample_parts(part):
    """A digest of each sample's part of a component of a batch; None if the component has none of its own."""
    if isinstance(part, tf.RaggedTensor):
        return [digest(np.frombuffer(repr(row).encode(), "uint8")) for row in part.to_list()]
    if isinstance(part, tf.SparseTensor):
        part = tf.sparse.to_dense(part)
    value = value_of(part)
    if value.ndim == 0:
        return None
    if value.dtype.kind == "O":
        return [digest(np.frombuffer(repr(row.tolist() if hasattr(row, "tolist") else row).encode(), "uint8"))
                for row in value]
    return [digest(row) for row in value]


def samples_of(batch):
    """What identifies each sample of a batch: a digest of each of its components."""
    columns = [sample_parts(part) for part in tf.nest.flatten(batch) if part is not None]
    columns = [column for column in columns if column is not None]
    return [tuple(row) for row in zip(*columns)]
