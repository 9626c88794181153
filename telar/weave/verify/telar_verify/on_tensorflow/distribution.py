"""Replicas of tf.distribute: a logical device of one process for each rank."""
import tensorflow as tf


def use_logical_devices(count):
    """Lets MirroredStrategy have `count` logical processors."""
    cpus = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * count)
    mirrored = tf.distribute.MirroredStrategy

    def over_processors(*arguments, **options):
        return mirrored(["CPU:%d" % number for number in range(count)])

    tf.distribute.MirroredStrategy = over_processors


def replica():
    """The number of the replica that computes now; 0 outside of replicas."""
    context = tf.distribute.get_replica_context()
    return int(context.replica_id_in_sync_group) if context is not None else 0


def share_of(value, number):
    """A replica's part of a value that a distributed dataset gives."""
    parts = getattr(value, "values", None)
    return parts[number] if isinstance(parts, tuple) else value


def join_gradients(records, steps):
    """Under a strategy, an optimizer sums the gradients of all replicas, unless it was told that they are
    summed already."""
    if len(records) == 1:
        return
    columns = [{(one["optimizer"], one["step"]): one for one in record.steps} for record in records]
    for key, first in columns[0].items():
        parts = [column.get(key) for column in columns]
        if first["summed"] or any(part is None for part in parts):
            continue
        joined = [sum_of(values) for values in zip(*[part["gradients"] for part in parts])]
        for part in parts:
            part["gradients"] = joined


def sum_of(values):
    known = [value for value in values if value is not None]
    return sum(known) if known else None
