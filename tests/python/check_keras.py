#!/usr/bin/env python3
"""telar.keras against Keras itself, on the models of keras_models.py, on each layer, and on hostile constructs.

    KERAS_BACKEND=torch python tests/python/check_keras.py [-k NAME]

It needs Keras 3 with TensorFlow or PyTorch. PYTHONPATH must have the package telar (build/release/python).
"""

import os
import sys
import tempfile
import unittest
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import numpy
    import keras
    from keras import layers, ops
except ImportError:
    print("check_keras: SKIPPED, there is no Keras with a backend")
    sys.exit(77)
if keras.backend.backend() not in ("tensorflow", "torch"):
    print(f"check_keras: SKIPPED, the backend is {keras.backend.backend()}")
    sys.exit(77)

import telar
import telar.keras as tk

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from keras_models import MODELS, RANDOM, classes, normal  # noqa: E402: the folder must be on the path first

warnings.filterwarnings("ignore")
STEPS = 20
BATCHES = (6, 4, 5)


def pair(build, x, compiled):
    """A model and another one with the same values, both compiled; the first is Telar's."""
    nets = [build(), build()]
    for net in nets:
        net(ops.convert_to_tensor(x) if isinstance(x, numpy.ndarray) else [ops.convert_to_tensor(part) for part in x])
    nets[1].set_weights(nets[0].get_weights())
    for net in nets:
        compiled(net)
    return nets


def losses_of(net, batches):
    """The loss of each step, from Keras's means over the steps until then."""
    found = []
    for x, y in batches:
        net.reset_metrics()
        found.append(float(net.train_on_batch(x, y, return_dict=True)["loss"]))
    return found


def largest_difference(a, b):
    return max((float(numpy.abs(x - y).max()) for x, y in zip(a, b) if x.size), default=0.0)


class Models(unittest.TestCase):
    """Each model trains as in Keras."""

    def check(self, name):
        keras.utils.set_random_seed(0)
        _, loss, make = MODELS[name]()
        batches = [make(BATCHES[i % len(BATCHES)]) for i in range(STEPS)]

        def compiled(net):
            net.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, metrics=["accuracy"])

        net, other = pair(lambda: MODELS[name]()[0], batches[0][0], compiled)
        tk.use(net)
        found, right = losses_of(net, batches), losses_of(other, batches)
        for i, (a, b) in enumerate(zip(found, right)):
            self.assertLessEqual(abs(a - b), (1e-5 if i == 0 else 5e-3) * max(1, abs(b)), f"step {i}: {found} and {right}")
        x, y = make(7)
        a, b = (net.evaluate(x, y, batch_size=4, verbose=0, return_dict=True) for net in (net, other))
        for metric in b:
            self.assertAlmostEqual(a[metric], b[metric], delta=1e-2 * max(1, abs(b[metric])))

    def test_statistics_after_three_steps(self):
        keras.utils.set_random_seed(0)
        _, loss, make = MODELS["mini_xception"]()
        batches = [make(16) for _ in range(3)]
        net, other = pair(lambda: MODELS["mini_xception"]()[0], batches[0][0], lambda net: net.compile(
            keras.optimizers.SGD(1e-3), loss))
        tk.use(net, strategy="mirrored", replicas=2)
        losses_of(net, batches), losses_of(other, batches)
        for a, b in zip(net.non_trainable_variables, other.non_trainable_variables):
            if "moving" in a.path:
                a, b = (ops.convert_to_numpy(v) for v in (a, b))
                numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * numpy.abs(b).max())


def add_model_test(name):
    setattr(Models, f"test_{name}", lambda self: self.check(name))


for _name in MODELS:
    add_model_test(_name)


class Layers(unittest.TestCase):
    """Each layer computes what Keras computes, in training and in evaluation, with its gradients.

    telar.keras compares loss, gradients, statistics and predictions of the first batch itself; here, losses after three
    steps follow.
    """

    def run_layers(self, shape, build, labels=None):
        keras.utils.set_random_seed(0)
        inputs = keras.Input(shape)
        integer = isinstance(labels, str)

        def net():
            given = keras.Input(shape, dtype="int32" if integer else "float32")
            return keras.Model(given, layers.Dense(3, name="head")(layers.Flatten(name="flat")(build()(given))))

        del inputs
        make = (lambda n: RANDOM.integers(0, 9, (n, *shape))) if integer else lambda n: normal(n, *shape)
        batches = [(make(n), normal(n, 3)) for n in BATCHES]
        a, b = pair(net, batches[0][0], lambda net: net.compile(keras.optimizers.SGD(0.1), "mse"))
        for model in (a, b):
            for index, weights in enumerate(model.get_weights()):
                if weights.ndim and not weights.any():  # biases that begin at zero would hide exchanged ones
                    values = model.get_weights()
                    values[index] = numpy.random.default_rng(index).normal(size=weights.shape).astype("float32") * 0.1
                    model.set_weights(values)
        tk.use(a)
        numpy.testing.assert_allclose(losses_of(a, batches), losses_of(b, batches), rtol=2e-4, atol=1e-5)
        self.assertLess(largest_difference(a.get_weights(), b.get_weights()), 1e-3)

    def test_dense_with_activations(self):
        for name in ("relu", "sigmoid", "tanh", "softmax", "gelu", "silu", "elu", "selu", "softplus", "exponential", "leaky_relu",
                     "relu6", "hard_sigmoid", "hard_silu", "mish", "softsign", "log_softmax"):
            with self.subTest(name):
                self.run_layers((5,), lambda: layers.Dense(4, activation=name))

    def test_of_rows(self):
        self.run_layers((4, 5), lambda: layers.Dense(3, activation="relu"))

    def test_activations_as_layers(self):
        for build in (lambda: layers.LeakyReLU(0.3), lambda: layers.ReLU(max_value=1.0), lambda: layers.ELU(0.7),
                      lambda: layers.PReLU(alpha_initializer="ones"), lambda: layers.Softmax(), lambda: layers.Activation("tanh")):
            self.run_layers((4, 5), build)
        self.run_layers((6, 6, 3), lambda: keras.Sequential([layers.Conv2D(4, 3), layers.PReLU(shared_axes=[1, 2]),
                                                             layers.Conv2D(2, 1), layers.Softmax(axis=2)]))

    def test_convolutions(self):
        for options in ({}, {"padding": "same"}, {"strides": 2, "padding": "same"}, {"strides": 3}, {"dilation_rate": 2},
                        {"dilation_rate": 2, "padding": "same"}, {"groups": 2}, {"use_bias": False, "activation": "relu"}):
            for size in (2, 3):
                with self.subTest(options, size=size):
                    self.run_layers((7, 8, 4), lambda: layers.Conv2D(6, size, **options))
        self.run_layers((6, 7, 2), lambda: layers.Conv2D(3, (1, 4), padding="same"))

    def test_depthwise_and_separable(self):
        for padding in ("same", "valid"):
            self.run_layers((7, 6, 3), lambda: layers.DepthwiseConv2D(3, padding=padding, depth_multiplier=2, strides=2))
            self.run_layers((7, 6, 3), lambda: layers.SeparableConv2D(4, 3, padding=padding, activation="relu"))

    def test_transposed_convolutions(self):
        for options in ({}, {"strides": 2}, {"strides": 2, "padding": "same"}, {"strides": 3, "padding": "same"},
                        {"padding": "same"}):
            for size in (2, 3, 4):
                with self.subTest(options, size=size):
                    self.run_layers((4, 5, 3), lambda: layers.Conv2DTranspose(2, size, **options))

    def test_one_dimension(self):
        for options in ({}, {"padding": "causal", "dilation_rate": 2}, {"padding": "same", "strides": 2}):
            self.run_layers((9, 4), lambda: layers.Conv1D(5, 3, **options))
        self.run_layers((9, 4), lambda: keras.Sequential([layers.Conv1D(5, 3), layers.MaxPooling1D(2), layers.SpatialDropout1D(0.0)]))
        self.run_layers((9, 4), lambda: layers.AveragePooling1D(3, padding="same"))
        self.run_layers((9, 4), lambda: layers.SeparableConv1D(5, 3, padding="same"))
        self.run_layers((9, 4), lambda: keras.Sequential([layers.ZeroPadding1D((1, 2)), layers.Cropping1D(1), layers.UpSampling1D(2)]))

    def test_pooling(self):
        for options in ({}, {"padding": "same"}, {"pool_size": 3, "strides": 2, "padding": "same"}, {"pool_size": (2, 3)}):
            for kind in (layers.MaxPooling2D, layers.AveragePooling2D):
                with self.subTest(options, kind=kind.__name__):
                    self.run_layers((7, 8, 3), lambda: kind(**options))
        for kind in (layers.GlobalMaxPooling2D, layers.GlobalAveragePooling2D):
            self.run_layers((5, 6, 3), lambda: keras.Sequential([layers.Conv2D(4, 3), kind(keepdims=True)]))
            self.run_layers((5, 6, 3), kind)
        for kind in (layers.GlobalMaxPooling1D, layers.GlobalAveragePooling1D):
            self.run_layers((5, 6), kind)

    def test_images_are_shaped(self):
        self.run_layers((5, 6, 3), lambda: keras.Sequential([layers.Conv2D(4, 3), layers.ZeroPadding2D(((1, 2), (0, 1))),
                                                             layers.Cropping2D(1), layers.UpSampling2D((2, 3))]))
        self.run_layers((5, 6, 3), lambda: keras.Sequential([layers.Conv2D(4, 3), layers.Permute((3, 1, 2)), layers.Reshape((4, -1)),
                                                             layers.Permute((2, 1)), layers.LayerNormalization()]))
        self.run_layers((5,), lambda: keras.Sequential([layers.Dense(4), layers.RepeatVector(3), layers.LSTM(4)]))

    def test_channels_first(self):
        if keras.backend.backend() == "torch":
            self.run_layers((3, 6, 7), lambda: keras.Sequential([
                layers.Conv2D(4, 3, data_format="channels_first"), layers.BatchNormalization(axis=1),
                layers.MaxPooling2D(2, data_format="channels_first"), layers.Flatten(data_format="channels_first")]))

    def test_normalisation(self):
        for shape in ((6,), (5, 4), (4, 5, 3)):
            self.run_layers(shape, lambda: layers.BatchNormalization(momentum=0.8, epsilon=1e-2))
            self.run_layers(shape, lambda: layers.LayerNormalization())
        self.run_layers((4, 5, 3), lambda: layers.BatchNormalization(scale=False, center=False))
        self.run_layers((4, 5, 6), lambda: keras.Sequential([layers.Conv2D(6, 3), layers.GroupNormalization(3)]))
        self.run_layers((4, 5), lambda: layers.LayerNormalization(axis=[1, 2], scale=False))
        self.run_layers((4, 5), layers.UnitNormalization)
        self.run_layers((4, 5), layers.RMSNormalization)

    def test_recurrent(self):
        for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
            for options in ({}, {"return_sequences": True}, {"go_backwards": True}, {"use_bias": False}):
                with self.subTest(kind.__name__, **options):
                    self.run_layers((6, 4), lambda: kind(5, **options))
        for mode in ("concat", "sum", "mul", "ave"):
            self.run_layers((6, 4), lambda: layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode=mode))
        self.run_layers((6, 4), lambda: layers.Bidirectional(layers.LSTM(3)))
        self.run_layers((6, 4), lambda: layers.TimeDistributed(layers.Dense(3)))

    def test_states(self):
        class Both(layers.Layer):
            def __init__(self):
                super().__init__()
                self.lstm = layers.LSTM(4, return_state=True)

            def call(self, x):
                y, h, c = self.lstm(x)
                return y + 2 * h * c

        self.run_layers((6, 4), Both)

    def test_embedding(self):
        self.run_layers((6,), lambda: layers.Embedding(9, 4), "tokens")

    def test_attention(self):
        class Causal(layers.Layer):
            def __init__(self, **options):
                super().__init__()
                self.attention = layers.MultiHeadAttention(2, 3, **options)

            def build(self, shape):
                self.attention.build(shape, shape)

            def call(self, x):
                return self.attention(x, x, use_causal_mask=True)

        self.run_layers((5, 4), Causal)
        self.run_layers((5, 4), lambda: Causal(value_dim=5, use_bias=False, output_shape=7))

    def test_operations(self):
        for name, function in {
                "arithmetic": lambda x: (2 - x) * x / (1 + ops.exp(-x)) - x**2, "matmul": lambda x: ops.matmul(x, ops.transpose(x, (0, 2, 1))),
                "reductions": lambda x: ops.mean(x, axis=1, keepdims=True) + ops.sum(x, axis=-1, keepdims=True) - ops.max(x, axis=1)[:, None],
                "shapes": lambda x: ops.concatenate([x[:, :2], ops.reshape(x, (-1, 5, 4))[:, -2:, ...]], axis=1),
                "functions": lambda x: ops.sqrt(ops.square(x) + 1) + ops.relu(x) * ops.sigmoid(x) + ops.clip(x, -1, 1) + ops.abs(x),
                "parts": lambda x: ops.stack(ops.split(x, 2, axis=2), axis=1), "softmax": lambda x: ops.softmax(x, axis=1)}.items():
            with self.subTest(name):
                self.run_layers((5, 4), lambda: layers.Lambda(function))

    def test_merging(self):
        for kind in (layers.Add, layers.Subtract, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum,
                     layers.Concatenate):
            class Two(layers.Layer):
                def __init__(self):
                    super().__init__()
                    self.a, self.b, self.merge = layers.Conv2D(3, 1), layers.Conv2D(3, 1), kind()

                def call(self, x):
                    return self.merge([self.a(x), ops.tanh(self.b(x))])

            with self.subTest(kind.__name__):
                self.run_layers((4, 5, 2), Two)

    def test_squeeze_and_excitation(self):
        class Block(layers.Layer):
            def __init__(self):
                super().__init__()
                self.conv, self.pool = layers.Conv2D(4, 3), layers.GlobalAveragePooling2D()
                self.first, self.second = layers.Dense(2, activation="relu"), layers.Dense(4, activation="sigmoid")
                self.shape = layers.Reshape((1, 1, 4))

            def call(self, x):
                x = self.conv(x)
                return x * self.shape(self.second(self.first(self.pool(x))))

        self.run_layers((5, 6, 3), Block)


class Losses(unittest.TestCase):
    """Losses and metrics are those of Keras."""

    def run_loss(self, loss, labels, outputs=4, activation=None, metrics=("mse",), shape=(6,), weights=None):
        keras.utils.set_random_seed(0)
        batches = [(normal(n, *shape), labels(n)) for n in BATCHES]
        a, b = pair(lambda: keras.Sequential([keras.Input(shape), layers.Dense(outputs, activation=activation)]), batches[0][0],
                    lambda net: net.compile(keras.optimizers.SGD(0.1), loss, metrics=list(metrics)))
        tk.use(a)
        for x, y in batches:
            given = {"sample_weight": weights(len(x))} if weights else {}
            found, right = (net.train_on_batch(x, y, return_dict=True, **given) for net in (a, b))
            for name in right:
                self.assertAlmostEqual(float(found[name]), float(right[name]), delta=1e-4 * max(1, abs(right[name])), msg=name)
        self.assertLess(largest_difference(a.get_weights(), b.get_weights()), 1e-4)

    def one_hot(self, n):
        return numpy.eye(4, dtype="float32")[classes(n, 4)]

    def test_cross_entropies(self):
        sparse, dense = keras.losses.SparseCategoricalCrossentropy, keras.losses.CategoricalCrossentropy
        for loss, labels, activation in (
                (sparse(from_logits=True), lambda n: classes(n, 4), None), (sparse(), lambda n: classes(n, 4)[:, None], "softmax"),
                (sparse(), lambda n: classes(n, 4), "sigmoid"), (dense(from_logits=True), self.one_hot, None),
                (dense(label_smoothing=0.2), self.one_hot, "softmax"), (dense(), self.one_hot, "sigmoid")):
            self.run_loss(loss, labels, activation=activation, metrics=["accuracy"])

    def test_binary(self):
        for loss, activation in ((keras.losses.BinaryCrossentropy(from_logits=True), None), ("binary_crossentropy", "sigmoid"),
                                 (keras.losses.BinaryCrossentropy(label_smoothing=0.1), "sigmoid"),
                                 ("binary_crossentropy", "hard_sigmoid")):
            self.run_loss(loss, lambda n: classes(n, 2), 1, activation, ["accuracy", keras.metrics.BinaryAccuracy(threshold=0.3)])

    def test_regression(self):
        for loss in ("mse", "mae", keras.losses.Huber(0.5)):
            self.run_loss(loss, lambda n: normal(n, 4), metrics=["mae", "mse"])
        self.run_loss("poisson", lambda n: numpy.abs(normal(n, 4)), activation="softplus")
        self.run_loss("kl_divergence", lambda n: numpy.abs(normal(n, 4)), activation="softmax")
        self.run_loss(keras.losses.MeanSquaredError(reduction="sum"), lambda n: normal(n, 4))

    def test_function_of_the_user(self):
        self.run_loss(lambda y, p: ops.mean(ops.square(y - p) * 3 + ops.abs(p), axis=-1), lambda n: normal(n, 4))

    def test_of_sequences(self):
        self.run_loss(keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda n: RANDOM.integers(0, 4, (n, 5)),
                      metrics=["accuracy"], shape=(5, 6))

    def test_weights_of_samples(self):
        def weights(n):
            return RANDOM.uniform(0.5, 2, n).astype("float32")

        self.run_loss("mse", lambda n: normal(n, 4), weights=weights)
        self.run_loss("sparse_categorical_crossentropy", lambda n: classes(n, 4), activation="softmax", metrics=["accuracy"],
                      weights=weights)

    def test_other_metrics_are_of_predictions(self):
        self.run_loss("binary_crossentropy", lambda n: classes(n, 2), 1, "sigmoid", [keras.metrics.AUC(), "precision"])


class Strategies(unittest.TestCase):
    """Every strategy of one process gives what one device gives."""

    def check(self, strategy, name="mini_xception", tolerance=1e-5, **options):
        keras.utils.set_random_seed(0)
        _, loss, make = MODELS[name]()
        batches = [make(n) for n in (6, 4, 5, 6)]
        nets = pair(lambda: MODELS[name]()[0], batches[0][0], lambda net: net.compile(keras.optimizers.SGD(1e-3), loss))
        tk.use(nets[0])
        tk.use(nets[1], strategy=strategy, **options)
        single, parallel = (losses_of(net, batches) for net in nets)
        numpy.testing.assert_allclose(single, parallel, rtol=tolerance, atol=tolerance)
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 2e-3)

    def test_mirrored(self):
        self.check("mirrored", replicas=2)

    def test_sharded(self):
        self.check("sharded", replicas=3)

    def test_pipeline(self):
        self.check("pipeline", name="text_transformer", stages=2)

    def test_tensor(self):
        self.check("tensor", name="mnist_convnet", ways=2)

    def test_servers_are_refused(self):
        with self.assertRaisesRegex(telar.Error, "workers of their own"):
            self.check("downpour", name="subclassed")


if __name__ == "__main__":
    unittest.main(verbosity=1)
