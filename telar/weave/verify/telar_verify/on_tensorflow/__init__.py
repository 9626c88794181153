"""Observes programs that train with Keras or TensorFlow.

Functions of tf.function run eagerly, so that every value can be seen. Under tf.distribute one process has a
logical device for each rank; each replica's share is recorded as that of a rank.
"""
import random

import numpy as np
import tensorflow as tf

from .. import fakes
from ..record import Record
from . import data, distribution, horovod, noise, outputs, training


def leave_sessions_alone():
    """Keras on TensorFlow 1's sessions does not run with eager functions."""
    def observed(disable):
        def disable_eager(*arguments):
            tf.config.run_functions_eagerly(False)
            return disable(*arguments)
        return disable_eager

    for name in ("disable_v2_behavior", "disable_eager_execution"):
        setattr(tf.compat.v1, name, observed(getattr(tf.compat.v1, name)))


class Observer:
    """Watches what the program does from now on. `settings`: as verify.py writes them."""

    def __init__(self, settings, record):
        tf.config.threading.set_intra_op_parallelism_threads(settings["threads"])
        tf.config.threading.set_inter_op_parallelism_threads(settings["threads"])
        self.records = [record]
        record.by_keras = True
        if settings["target"] == "tf-distribute" and settings["world"] > 1:
            self.records += [Record(settings["folder"], settings) for _ in range(settings["world"] - 1)]
            distribution.use_logical_devices(settings["world"])
        tf.config.run_functions_eagerly(True)
        leave_sessions_alone()
        noise.without_random_layers(record)
        noise.without_batch_statistics(record)
        passes = data.Passes(self.records)
        noise.Draws(self.records, passes)
        data.watch_datasets(passes)
        data.watch_lengths(passes)
        data.watch_models(passes)
        self.steps = training.watch_steps(self.records, passes, settings)
        training.watch_weights(record)
        if settings["target"] == "horovod" and settings["world"] > 1:
            horovod.install()
            record.started_later = True
        if settings["fake_data"]:
            fakes.install_for_keras(record, settings)

    def before_print(self):
        self.steps.note_rates()

    @staticmethod
    def seed(number):
        """Processes are seeded by the system, each in its own way; here repeatably."""
        tf.random.set_seed(number)
        np.random.seed(number)
        random.seed(number)

    @staticmethod
    def watch_saves(watch):
        outputs.watch_saves(watch)

    def ranks(self):
        """What was observed of each rank in this process."""
        if self.steps.graphs and not self.steps.seen:
            self.records[0].unseen = "TensorFlow 1 computes in a session, where single steps cannot be observed"
        distribution.join_gradients(self.records, self.steps)
        return [one.data() for one in self.records]
