"""Random numbers of TensorFlow, and what is made equal so that gradients can be compared.

As with PyTorch, both programs run with dropout that keeps everything and with batch norm that normalises each
sample by itself. Layers that change samples at random do what they do when they are not trained. What is drawn
in a step by tf.random's and NumPy's functions is recorded on each rank and given, joined, to the sequential
program.
"""
import threading

import numpy as np
import tensorflow as tf

from . import distribution, values

NAMES = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout",
         "GaussianNoise", "AlphaDropout")


def without_random_layers(record):
    def untrained(call, name):
        def call_untrained(self, inputs, *arguments, **options):
            if arguments:
                arguments = (False,) + arguments[1:]
            else:
                options["training"] = False
            record.neutral.add(name)
            return call(self, inputs, *arguments, **options)
        return call_untrained

    layers = tf.keras.layers
    for name in dir(layers):
        kind = getattr(layers, name)
        is_random = name in NAMES or (name.startswith("Random") and name != "RandomFourierFeatures")
        if is_random and isinstance(kind, type) and "call" in vars(kind):
            kind.call = untrained(kind.call, "dropout" if name in NAMES else "random layers")
    for name in ("LSTM", "GRU", "SimpleRNN", "LSTMCell", "GRUCell", "SimpleRNNCell"):
        kind = getattr(layers, name)
        kind.__init__ = without_its_dropout(record, kind.__init__)


def without_its_dropout(record, create):
    def init(self, *arguments, **options):
        for name in ("dropout", "recurrent_dropout"):
            if options.get(name):
                record.neutral.add("dropout")
                options[name] = 0.0
        create(self, *arguments, **options)
    return init


def without_batch_statistics(record):
    kind = tf.keras.layers.BatchNormalization
    normalise = kind.call

    def is_training(layer, training):
        if hasattr(layer, "_get_training_value"):  # Keras 2
            return bool(layer._get_training_value(training))
        return bool(training) and layer.trainable

    def by_sample(self, inputs, training=None, *arguments, **options):
        if not is_training(self, training):
            return normalise(self, inputs, False, *arguments, **options)
        record.neutral.add("batch norm")
        shape = [1] * len(inputs.shape)
        for axis in self.axis if isinstance(self.axis, (list, tuple)) else [self.axis]:
            shape[axis] = inputs.shape[axis]
        value = tf.cast(inputs, tf.float32)
        if int(np.prod([size or 2 for size in inputs.shape[1:]])) > 1:
            mean, variance = tf.nn.moments(value, list(range(1, len(inputs.shape))), keepdims=True)
            value = (value - mean) * tf.math.rsqrt(variance + self.epsilon)
        if self.gamma is not None:
            value = value * tf.reshape(tf.cast(self.gamma, tf.float32), shape)
        if self.beta is not None:
            value = value + tf.reshape(tf.cast(self.beta, tf.float32), shape)
        return tf.cast(value, inputs.dtype)

    kind.call = by_sample


class Draws:
    """What tf.random's and NumPy's functions draw within a training step, with the name of the library."""

    FUNCTIONS = ("normal", "uniform", "truncated_normal")
    NUMPY = ("normal", "uniform", "rand", "randn", "random", "randint")

    def __init__(self, records, passes):
        self.record, self.passes = records[0], passes
        self.count = 0  # of the sequential program: the draws since the batch was given
        self.last = None
        for name in self.FUNCTIONS:
            setattr(tf.random, name, self.observed(getattr(tf.random, name)))
        backend = tf.keras.backend
        for name in ("random_normal", "random_uniform"):
            if hasattr(backend, name):
                setattr(backend, name, self.observed(getattr(backend, name)))
        if hasattr(tf.keras, "random"):  # Keras 3
            for name in self.FUNCTIONS:
                setattr(tf.keras.random, name, self.observed(getattr(tf.keras.random, name)))
        for name in self.NUMPY:
            setattr(np.random, name, self.observed(getattr(np.random, name), "numpy"))

    def observed(self, function, library="tensorflow"):
        def draw(*arguments, **options):
            drawn = function(*arguments, **options)
            one = self.passes.current
            if one is None or not one.active or not tf.executing_eagerly() or self.passes.skipping:
                return drawn
            if isinstance(threading.current_thread(), threading._DummyThread):
                return drawn  # for a sample, in a thread of tf.data
            if one.source is None:
                one.shares[distribution.replica()].drawn[-1].append((library, values.value_of(drawn)))
                return drawn
            return self.in_place_of(drawn, one)

        return draw

    def in_place_of(self, drawn, one):
        """What the sequential program receives for its draw: the ranks' draws, or its own if they do not make it
        up."""
        if self.last != one.given:
            self.last, self.count = one.given, 0
        lists = [source["drawn"][one.used - 1] for source in one.sources()]
        at = self.count
        self.count += 1
        if all(at < len(some) for some in lists):
            parts = [some[at][1] for some in lists]
            if len(parts) == 1 and parts[0].shape == np.shape(drawn):
                return self.like(drawn, parts[0])
            if all(part.ndim for part in parts) and len({part.shape[1:] for part in parts}) == 1:
                whole = np.concatenate(parts)
                if whole.shape == np.shape(drawn):
                    return self.like(drawn, whole)
        if len(lists) > 1:
            self.record.exclude("the step draws random numbers that are not one for each sample")
        return drawn

    @staticmethod
    def like(drawn, value):
        return tf.cast(value, drawn.dtype) if tf.is_tensor(drawn) else value
