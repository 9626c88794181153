"""A stand-in of horovod.tensorflow, horovod.tensorflow.keras and horovod.keras over sockets: it has what woven
scripts use, with Horovod's meaning. (Horovod 0.28 does not build with a current TensorFlow.)"""
import os
import sys
import time
import types
from multiprocessing import connection

import numpy as np
import tensorflow as tf

from . import values

Average, Sum, Min, Max = "Average", "Sum", "Min", "Max"


class Group:
    """Rank 0 receives a value of each rank and answers with all of them."""

    def __init__(self):
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.links = []

    def join(self):
        address, key = ("127.0.0.1", int(os.environ["MASTER_PORT"])), b"telar"
        if self.links or self.size == 1:
            return
        if self.rank > 0:
            self.links = [self.connected(address, key)]
            self.links[0].send(self.rank)
            return
        with connection.Listener(address, authkey=key, backlog=self.size) as listener:
            links = [listener.accept() for _ in range(self.size - 1)]
        self.links = [link for _, link in sorted((link.recv(), link) for link in links)]

    @staticmethod
    def connected(address, key):
        while True:
            try:
                return connection.Client(address, authkey=key)
            except ConnectionRefusedError:  # rank 0 is not that far
                time.sleep(0.05)

    def all_of(self, thing):
        """The things of all ranks, in the order of the ranks."""
        if self.rank > 0:
            self.links[0].send(thing)
            return self.links[0].recv()
        things = [thing] + [link.recv() for link in self.links]
        for link in self.links:
            link.send(things)
        return things


def average_of(group, gradients):
    """The mean of each gradient over the ranks."""
    mine = [None if one is None else values.value_of(one) for one in gradients]
    columns = zip(*group.all_of(mine))
    return [None if column[0] is None else tf.cast(sum(column) / group.size, gradient.dtype)
            for gradient, column in zip(gradients, columns)]


def install():
    """Makes the modules of Horovod find this one, also where Horovod is installed."""
    group = Group()
    tensorflow, keras = types.ModuleType("horovod.tensorflow"), types.ModuleType("horovod.tensorflow.keras")
    for module in (tensorflow, keras):
        fill(module, group)
    fill_tensorflow(tensorflow, group)
    fill_keras(keras, group)
    tensorflow.keras = keras
    call_variables()
    package = types.ModuleType("horovod")
    package.__path__, tensorflow.__path__ = [], []
    package.tensorflow, package.keras = tensorflow, keras
    sys.modules.update({"horovod": package, "horovod.tensorflow": tensorflow, "horovod.keras": keras,
                        "horovod.tensorflow.keras": keras, "horovod.keras.callbacks": keras.callbacks,
                        "horovod.tensorflow.keras.callbacks": keras.callbacks})


class Callable(list):
    """A list that may be called."""

    def __call__(self):
        return self


def call_variables():
    """Programs for Horovod, which does not know Keras 3, call `optimizer.variables()`; there it is a list."""
    optimizer = tf.keras.optimizers.Optimizer
    variables = getattr(optimizer, "variables", None)
    if hasattr(optimizer, "apply") and isinstance(variables, property):
        optimizer.variables = property(lambda self: Callable(variables.fget(self)))


def fill(module, group):
    """What both interfaces have."""
    module.Average, module.Sum, module.Min, module.Max = Average, Sum, Min, Max
    module.init = lambda *arguments, **options: group.join()
    module.shutdown = lambda: None
    module.is_initialized = lambda: bool(group.links)
    module.rank = module.local_rank = lambda: group.rank
    module.size = module.local_size = lambda: group.size
    module.cross_rank, module.cross_size = lambda: 0, lambda: 1
    module.barrier = lambda: group.all_of(None)
    module.allgather_object = lambda thing, name=None: group.all_of(thing)
    module.broadcast_object = lambda thing, root_rank=0, name=None: group.all_of(thing)[root_rank]

    def allreduce(tensor, average=None, name=None, op=None, **options):
        operation = Sum if average is False else op or Average
        tensor = tf.convert_to_tensor(tensor)
        parts = np.stack(group.all_of(values.value_of(tensor)))
        how = {Average: np.mean, Sum: np.sum, Min: np.min, Max: np.max}[operation]
        return tf.cast(how(parts, axis=0), tensor.dtype)

    def broadcast_variables(variables, root_rank):
        for variable, value in zip(variables, group.all_of([values.value_of(one) for one in variables])[root_rank]):
            variable.assign(value)

    module.allreduce, module.broadcast_variables = allreduce, broadcast_variables
    module.allgather = lambda tensor, name=None: tf.concat(group.all_of(values.value_of(tensor)), 0)
    module.broadcast = lambda tensor, root_rank, name=None: tf.convert_to_tensor(
        group.all_of(values.value_of(tensor))[root_rank])


def fill_tensorflow(module, group):
    class Averaging:
        """A tape whose gradients are means over the ranks."""

        def __init__(self, tape):
            self.tape = tape

        def gradient(self, target, sources, *arguments, **options):
            found = self.tape.gradient(target, sources, *arguments, **options)
            return tf.nest.pack_sequence_as(found, average_of(group, tf.nest.flatten(found)))

        def __getattr__(self, name):
            return getattr(self.tape, name)

    module.DistributedGradientTape = lambda gradtape, *arguments, **options: Averaging(gradtape)


def fill_keras(module, group):
    def distributed_optimizer(optimizer, *arguments, **options):
        kind = type(optimizer)
        members = {}
        # Horovod averages what minimize() computes, not what is given to apply_gradients(). Keras 3, which it
        # does not know, has only the latter.
        for name in ("compute_gradients", "_compute_gradients"):
            if hasattr(kind, name):
                members[name] = averaging(kind, name)
                break
        else:
            def apply(self, grads, trainable_variables=None):
                return super(self.__class__, self).apply(average_of(group, list(grads)), trainable_variables)
            members["apply"] = apply
        return type(kind.__name__, (kind,), members).from_config(optimizer.get_config())

    def averaging(kind, name):
        compute = getattr(kind, name)

        def averaged(self, *arguments, **options):
            pairs = list(compute(self, *arguments, **options))
            gradients = average_of(group, [gradient for gradient, _ in pairs])
            return list(zip(gradients, [variable for _, variable in pairs]))

        return averaged

    module.DistributedOptimizer = distributed_optimizer
    module.callbacks = callbacks_of(group, module)


def callbacks_of(group, keras):
    found = types.ModuleType("horovod.tensorflow.keras.callbacks")

    class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
        def __init__(self, root_rank, device=""):
            super().__init__()
            self.root_rank, self.is_done = root_rank, False

        def on_batch_end(self, batch, logs=None):
            if not self.is_done:
                self.is_done = True
                keras.broadcast_variables(self.model.variables, self.root_rank)
                variables = getattr(self.model.optimizer, "variables", [])
                keras.broadcast_variables(variables() if callable(variables) else variables, self.root_rank)

    class MetricAverageCallback(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            for name, value in sorted((logs or {}).items()):
                logs[name] = float(np.mean(group.all_of(float(value))))

    class LearningRateWarmupCallback(tf.keras.callbacks.Callback):
        def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0):
            super().__init__()
            self.initial_lr, self.warmup_epochs, self.steps = initial_lr, warmup_epochs, steps_per_epoch

        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_batch_begin(self, batch, logs=None):
            steps = self.steps or self.params["steps"]
            epoch = self.epoch + (batch + 1) / steps
            if epoch <= self.warmup_epochs:
                factor = (epoch * (group.size - 1) / self.warmup_epochs + 1) / group.size
                rate = getattr(self.model.optimizer, "learning_rate")
                rate.assign(self.initial_lr * factor)

    for kind in (BroadcastGlobalVariablesCallback, MetricAverageCallback, LearningRateWarmupCallback):
        setattr(found, kind.__name__, kind)
    return found
