#!/usr/bin/env python3
"""telar.keras against Keras itself, on the models of keras_models.py, on each layer, and on hostile constructs.

    KERAS_BACKEND=torch python tests/python/check_keras.py [-k NAME]

It needs Keras 3 with TensorFlow or PyTorch. PYTHONPATH must have the package telar (build/release/python).
"""

import os
import sys
import tempfile
import unittest
import unittest.mock
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import numpy
    import keras
    from keras import layers, ops
except ModuleNotFoundError:
    print("check_keras: SKIPPED, there is no Keras with a backend; scripts/install-peers installs both")
    sys.exit(77)
if keras.backend.backend() not in ("tensorflow", "torch"):
    print(f"check_keras: SKIPPED, the backend is {keras.backend.backend()}")
    sys.exit(77)

import telar
import telar.keras as tk

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from keras_constructs import CONSTRUCTS, numbers  # noqa: E402: the folder must be on the path first
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
        RANDOM.bit_generator.state = numpy.random.default_rng(1).bit_generator.state  # the same data in any order of the tests
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

        def compiled(net):
            for layer in net.layers:
                if isinstance(layer, layers.BatchNormalization):
                    layer.momentum = 0.1  # else the values with which they begin would hide those of the batches
            net.compile(keras.optimizers.SGD(1e-3), loss)

        net, other = pair(lambda: MODELS["mini_xception"]()[0], batches[0][0], compiled)
        tk.use(net, strategy="mirrored", replicas=2)
        losses_of(net, batches), losses_of(other, batches)
        for a, b in zip(net.non_trainable_variables, other.non_trainable_variables):
            if "moving" in a.path:
                a_path, a, b = a.path, *(ops.convert_to_numpy(v) for v in (a, b))
                numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * numpy.abs(b).max(), err_msg=a_path)


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
        integer = isinstance(labels, str)

        def net():
            given = keras.Input(shape, dtype="int32" if integer else "float32")
            return keras.Model(given, layers.Dense(3, name="head")(layers.Flatten(name="flat")(build()(given))))

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
        for name in ("relu", "sigmoid", "tanh", "softmax", "gelu", "silu", "elu", "selu", "softplus", "leaky_relu",
                     "relu6", "hard_sigmoid", "hard_silu", "mish", "softsign", "log_softmax"):
            with self.subTest(name):
                self.run_layers((5,), lambda: layers.Dense(4, activation=name))

    def test_of_rows(self):
        self.run_layers((4, 5), lambda: layers.Dense(3, activation="relu"))

    def test_activations_as_layers(self):
        for build in (lambda: layers.LeakyReLU(0.3), lambda: layers.ReLU(max_value=1.0), lambda: layers.ELU(0.7),
                      lambda: layers.PReLU(alpha_initializer="ones"), lambda: layers.Softmax(), lambda: layers.Activation("tanh"),
                      lambda: keras.Sequential([layers.Dense(4, activation="tanh"), layers.Activation("exponential")])):
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
        for options in ({"pool_size": 2}, {"pool_size": 2, "padding": "same"}, {"pool_size": (2, 3)},
                        {"pool_size": 3, "strides": 2, "padding": "same"}, {"pool_size": 3, "strides": 1, "padding": "same"}):
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

    def test_of_classes_by_the_user(self):
        """Focal losses, as users write them."""
        class Focal(keras.losses.Loss):
            def call(self, y, p):
                each = keras.losses.sparse_categorical_crossentropy(y, p, from_logits=True)
                return (1 - ops.exp(-each)) ** 2 * each

        def by_one_hot(y, p):
            truth = ops.one_hot(ops.cast(y, "int32"), 4)
            return -ops.sum(truth * (1 - p) ** 2 * ops.log(p + 1e-6), axis=-1)

        self.run_loss(Focal(), lambda n: classes(n, 4), metrics=[])
        self.run_loss(Focal(), lambda n: RANDOM.integers(0, 4, (n, 5)), metrics=["accuracy"], shape=(5, 6))
        self.run_loss(by_one_hot, lambda n: classes(n, 4), activation="softmax", metrics=["accuracy"])

    def test_other_losses_of_keras(self):
        of = keras.losses
        for loss in (of.LogCosh(), of.MeanAbsolutePercentageError(), of.MeanSquaredLogarithmicError(), of.CosineSimilarity(), of.CategoricalHinge(), of.Tversky(axis=-1), of.Dice(axis=-1)):
            with self.subTest(loss.name):
                self.run_loss(loss, lambda n: numpy.abs(normal(n, 4)), activation="softplus")
        for loss in (of.CategoricalFocalCrossentropy(), of.CategoricalFocalCrossentropy(from_logits=True, gamma=1.0, label_smoothing=0.1)):
            self.run_loss(loss, self.one_hot, activation=None if loss.get_config().get("from_logits") else "softmax")
        self.run_loss(of.BinaryFocalCrossentropy(apply_class_balancing=True), lambda n: classes(n, 2), 1, "sigmoid")

    def test_of_sequences(self):
        self.run_loss(keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda n: RANDOM.integers(0, 4, (n, 5)),
                      metrics=["accuracy"], shape=(5, 6))

    def test_weights_of_samples(self):
        def weights(n):
            return RANDOM.uniform(0.5, 2, n).astype("float32")

        self.run_loss("mse", lambda n: normal(n, 4), metrics=[], weights=lambda n: weights(n)[:, None])
        self.run_loss("mse", lambda n: normal(n, 4), weights=weights)
        self.run_loss("sparse_categorical_crossentropy", lambda n: classes(n, 4), activation="softmax", metrics=["accuracy"],
                      weights=weights)

        net = keras.Sequential([keras.Input((5, 6)), layers.Dense(4)])
        net.compile("sgd", "mse")
        with self.assertRaisesRegex(telar.Error, "takes a weight for each"):  # Keras would weight the steps
            tk.use(net).train_on_batch(normal(5, 5, 6), normal(5, 5, 4), sample_weight=weights(5))

    def test_weights_of_steps(self):
        for steps in (5, 1):
            for loss, labels in ((keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda n: RANDOM.integers(0, 4, (n, 5))),
                                 ("mse", lambda n: normal(n, 5, 4)),
                                 (keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"), lambda n: normal(n, 5, 4))):
                self.run_loss(loss, labels, metrics=[], shape=(5, 6), weights=lambda n: RANDOM.uniform(0, 2, (n, steps)).astype("float32"))

    def test_sums_over_steps(self):
        for loss, labels in ((keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"), lambda n: RANDOM.integers(0, 4, (n, 5))),
                             (keras.losses.MeanSquaredError(reduction="sum"), lambda n: normal(n, 5, 4))):
            self.run_loss(loss, labels, metrics=[], shape=(5, 6))

    def test_means_over_weights(self):
        def weights(n):
            return RANDOM.uniform(0, 2, n).astype("float32")

        mse = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
        self.run_loss(mse, lambda n: normal(n, 4), weights=weights)
        self.run_loss(mse, lambda n: normal(n, 4), weights=lambda n: numpy.zeros(n))
        self.run_loss(mse, lambda n: normal(n, 4))

    def test_weights_of_many_classes(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.run_loss(loss, lambda n: classes(n, 5000), outputs=5000, metrics=[], weights=lambda n: RANDOM.uniform(0.5, 2, n))

    def test_weighted_metrics_without_weights(self):
        x, y = normal(7, 6), normal(7, 4)
        nets = pair(lambda: keras.Sequential([keras.Input((6,)), layers.Dense(4)]), x,
                    lambda net: net.compile("sgd", "mse", metrics=["mae"], weighted_metrics=["mae", "mse"]))
        tk.use(nets[0])
        found, right = (net.train_on_batch(x, y, return_dict=True) for net in nets)
        self.assertEqual(list(found), list(right))
        for name in right:
            self.assertAlmostEqual(float(found[name]), float(right[name]), places=5, msg=name)

    def test_other_metrics_are_of_predictions(self):
        self.run_loss("binary_crossentropy", lambda n: classes(n, 2), 1, "sigmoid", [keras.metrics.AUC(), "precision"])


class Masks(unittest.TestCase):
    """Masks are made, passed on, stopped and used as by Keras. Models has whole models with masks."""

    def check(self, net, x, y, loss="mse", compiled=None, steps=3, **options):
        """Losses, metrics and values of a few steps."""
        keras.utils.set_random_seed(0)
        a, b = pair(net, x, lambda model: model.compile(keras.optimizers.SGD(0.1), loss, **(compiled or {})))
        given = {} if "sample_weight" not in options else {"sample_weight": options.pop("sample_weight")}
        tk.use(a, **options)
        for _ in range(steps):
            found, right = (model.train_on_batch(x, y, return_dict=True, **given) for model in (a, b))
            for name in right:
                self.assertAlmostEqual(float(found[name]), float(right[name]), delta=1e-5 * max(1, abs(right[name])), msg=name)
        self.assertLess(largest_difference(a.get_weights(), b.get_weights()), 1e-5)

    def embedded(self, *parts, steps=6):
        return lambda: keras.Sequential([keras.Input((steps,), dtype="int32"), layers.Embedding(5, 4, mask_zero=True),
                                         *[part() for part in parts]])

    def with_holes(self, n=7, steps=6):
        return RANDOM.integers(0, 3, (n, steps))

    def test_recurrent_layers(self):
        for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
            for options in ({}, {"go_backwards": True}, {"return_sequences": True}, {"return_sequences": True, "go_backwards": True},
                            {"zero_output_for_mask": True}, {"zero_output_for_mask": True, "return_sequences": True},
                            {"unroll": True, "return_sequences": True}):
                with self.subTest(kind.__name__, **options):
                    self.check(self.embedded(lambda: kind(5, **options), layers.Flatten, lambda: layers.Dense(3)), self.with_holes(), normal(7, 3))

    def test_states(self):
        def net(kind):
            given = keras.Input((6,), dtype="int32")
            x = layers.Embedding(5, 4, mask_zero=True)(given)
            first, *states = kind(4, return_state=True)(x)
            second = kind(4, return_sequences=True)(x, initial_state=states)
            return keras.Model(given, layers.Dense(3)(layers.Concatenate()([first, *states, layers.Flatten()(second)])))

        for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
            self.check(lambda: net(kind), self.with_holes(), normal(7, 3))

    def test_cells_of_other_kinds(self):
        for layer in (lambda: layers.GRU(5, reset_after=False), lambda: layers.LSTM(5, activation="relu", recurrent_activation="hard_sigmoid"),
                      lambda: layers.GRU(5, reset_after=False, use_bias=False, go_backwards=True)):
            self.check(self.embedded(layer, lambda: layers.Dense(3)), self.with_holes(), normal(7, 3))

    def test_merging(self):
        def net(kind, last):
            given = keras.Input((7,), dtype="int32")
            parts = layers.Lambda(lambda x: x[:, :-1])(given), layers.Lambda(lambda x: x[:, 1:])(given)  # with other masks
            tables = [layers.Embedding(5, 4, mask_zero=True)(x) for x in parts]
            return keras.Model(given, layers.Dense(3)(last(kind(tables))))

        for kind in (layers.Add, layers.Subtract, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum, layers.Concatenate):
            with self.subTest(kind.__name__):
                self.check(lambda: net(lambda given: kind()(given), layers.GlobalAveragePooling1D()), self.with_holes(steps=7), normal(7, 3))
        self.check(lambda: net(layers.Concatenate(), layers.GRU(3, return_sequences=True)), self.with_holes(steps=7), normal(7, 6, 3))
        self.check(lambda: net(layers.Concatenate(axis=1), layers.LSTM(3)), self.with_holes(steps=7), normal(7, 3))

    def test_attention(self):
        def net(last, of=lambda x: layers.MultiHeadAttention(2, 3)(x, x)):
            given = keras.Input((6,), dtype="int32")
            x = layers.Embedding(5, 4, mask_zero=True)(given)
            x = layers.LayerNormalization()(layers.Add()([x, of(x)]))
            return keras.Model(given, layers.Dense(3)(last()(x)))

        tokens = self.with_holes()
        tokens[:, 0] = 1
        self.check(lambda: net(layers.GlobalAveragePooling1D), tokens, normal(7, 3))
        self.check(lambda: net(lambda: layers.LSTM(3), lambda x: layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)), tokens, normal(7, 3))
        self.check(lambda: net(layers.Identity, lambda x: layers.Attention()([layers.Dense(4)(x), x])), tokens, normal(7, 6, 3))
        # With PyTorch, Keras's own gradients are wrong where a query has no key: only the check of the first batch has right ones.
        padding = numpy.where(numpy.arange(6) < numpy.array([6, 0, 3, 1, 2, 5, 4])[:, None], 2, 0)
        steps = 1 if keras.backend.backend() == "torch" else 3
        self.fit(lambda: net(layers.Flatten), padding, normal(7, 3), steps)

    def fit(self, net, x, y, steps):
        if steps > 1:
            return self.check(net, x, y, steps=steps)
        model = net()
        model.compile("sgd", "mse")
        return tk.use(model).train_on_batch(x, y)

    def test_layers_that_stop_masks(self):
        for stop in (lambda: layers.Reshape((6, 4)), lambda: layers.Conv1D(4, 1), lambda: layers.Lambda(lambda x: x * 1.0)):
            sequence = lambda: layers.LSTM(3, return_sequences=True)
            self.check(self.embedded(stop, sequence, lambda: layers.Dense(3)), self.with_holes(), normal(7, 6, 3))

    def test_masks_of_layers_of_ones_own(self):
        class Marks(layers.Layer):
            def compute_mask(self, x, mask=None):
                return ops.logical_and(ops.any(ops.greater(x, 0.3), axis=-1), ops.logical_not(ops.all(ops.less_equal(x, 0.1), axis=-1)))

            def call(self, x):
                return x

        class Takes(layers.Layer):
            def call(self, x, mask=None):
                return x if mask is None else ops.where(ops.expand_dims(mask, -1), x, -2.0) * ops.cast(mask, "float32")[..., None]

        x = normal(7, 6, 4)
        sequence = lambda: layers.LSTM(4, return_sequences=True)
        self.check(lambda: keras.Sequential([keras.Input((6, 4)), Marks(), sequence(), layers.Dense(3)]), x, normal(7, 6, 3))
        self.check(lambda: keras.Sequential([keras.Input((6, 4)), layers.Dense(4), Marks(), layers.LSTM(4), layers.Dense(3)]), x, normal(7, 3))
        self.check(self.embedded(Takes, layers.Flatten, lambda: layers.Dense(3)), self.with_holes(), normal(7, 3))

        def explicit():
            tokens, lengths = keras.Input((6,), dtype="int32"), keras.Input((1,), dtype="int32")
            mask = layers.Lambda(lambda n: ops.less(ops.arange(6)[None], n))(lengths)
            x = layers.LSTM(4, return_sequences=True)(layers.Embedding(5, 4)(tokens), mask=ops.logical_or(mask, ops.equal(tokens, 2)))
            return keras.Model([tokens, lengths], layers.Dense(3)(x))

        self.check(explicit, [self.with_holes(), RANDOM.integers(0, 7, (7, 1))], normal(7, 6, 3))

        def of_input():
            x, mask = keras.Input((6, 4)), keras.Input((6,), dtype="bool")
            y = layers.GRU(4, return_sequences=True)(Takes()(x, mask=mask), mask=mask)
            y = layers.MultiHeadAttention(2, 3)(y, y, attention_mask=layers.Lambda(lambda given: given[:, None, :])(mask))
            return keras.Model([x, mask], layers.Dense(3)(y))

        mask = RANDOM.uniform(size=(7, 6)) < 0.5
        mask[:, 2] = True
        self.check(of_input, [x, mask], normal(7, 6, 3))

    def test_losses_and_metrics(self):
        tokens, sequence = self.with_holes(), lambda: layers.LSTM(4, return_sequences=True)
        for loss, y, head, metrics in (
                ("sparse_categorical_crossentropy", RANDOM.integers(0, 3, (7, 6)), layers.Dense(3, activation="softmax"), ["accuracy"]),
                ("categorical_crossentropy", numpy.eye(3)[RANDOM.integers(0, 3, (7, 6))], layers.Dense(3, activation="softmax"), ["accuracy"]),
                ("binary_crossentropy", RANDOM.integers(0, 2, (7, 6, 1)), layers.Dense(1, activation="sigmoid"), ["accuracy", "mse"]),
                (keras.losses.MeanSquaredError(reduction="sum"), normal(7, 6, 3), layers.Dense(3), ["mae", keras.metrics.RootMeanSquaredError()]),
                (keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"), normal(7, 6, 3), layers.Dense(3), [])):
            config = head.get_config()
            net = self.embedded(sequence, lambda: layers.Dense.from_config(config))
            with self.subTest(str(loss)):
                self.check(net, tokens, y, loss, {"metrics": metrics})
                self.check(net, tokens, y, loss, sample_weight=RANDOM.uniform(0, 2, (7, 6)).astype("float32"))
                if keras.backend.backend() == "tensorflow":  # Keras itself cannot multiply them with PyTorch
                    self.check(net, tokens, y, loss, sample_weight=RANDOM.uniform(0, 2, (7, 1)).astype("float32"))
        self.check(self.embedded(sequence, lambda: layers.Dense(3)), tokens * 0, normal(7, 6, 3))

    def test_strategies(self):
        """A loss that is divided by the mask's sum over the batch is that of one device."""
        for strategy, options in (("mirrored", {"replicas": 2}), ("sharded", {"replicas": 3})):
            for name in ("tagger", "padded_transformer", "left_padded_classifier"):
                keras.utils.set_random_seed(0)
                _, loss, make = MODELS[name]()
                batches = [make(n) for n in (6, 4, 5, 6) * 2]
                batches[1][0][:2] = 0  # one replica has padding only
                nets = pair(lambda: MODELS[name]()[0], batches[0][0],
                            lambda net: net.compile(keras.optimizers.SGD(0.05), loss, metrics=["accuracy"]))
                tk.use(nets[0], strategy=strategy, **options)
                tk.use(nets[1])
                parallel, single = (losses_of(net, batches) for net in nets)
                numpy.testing.assert_allclose(parallel, single, rtol=1e-5, err_msg=f"{name} {strategy}")
                self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 1e-5)

    def test_strategies_that_divide_models(self):
        for strategy, options, names in (("pipeline", {"stages": 2}, ("left_padded_classifier", "padded_transformer")),
                                         ("tensor", {"ways": 2, "split": ["embedding*=rows", "*=columns"]}, ("padded_transformer",))):
            for name in names:
                keras.utils.set_random_seed(0)
                _, loss, make = MODELS[name]()
                batches = [make(n) for n in (6, 4, 5)]
                nets = pair(lambda: MODELS[name]()[0], batches[0][0], lambda net: net.compile(keras.optimizers.SGD(0.05), loss))
                tk.use(nets[0], strategy=strategy, **options)
                tk.use(nets[1])
                divided, single = (losses_of(net, batches) for net in nets)
                numpy.testing.assert_allclose(divided, single, rtol=1e-5, err_msg=f"{name} {strategy}")

    def test_softmax(self):
        class Masked(layers.Layer):
            def __init__(self):
                super().__init__()
                self.softmax = layers.Softmax()

            def call(self, x):
                return self.softmax(x, mask=ops.greater(x, 0.2))

        self.check(lambda: keras.Sequential([keras.Input((6, 4)), Masked(), layers.Flatten(), layers.Dense(3)]), normal(7, 6, 4), normal(7, 3))

    def test_dropout_of_attention(self):
        """Keras takes another function then, which gives zeros to a query without a key."""
        def net():
            given = keras.Input((6,), dtype="int32")
            x = layers.Embedding(5, 4, mask_zero=True)(given)
            return keras.Model(given, layers.Dense(3)(layers.Flatten()(layers.MultiHeadAttention(2, 3, dropout=0.3)(x, x))))

        model = net()
        model.compile("sgd", "mse")
        tk.use(model).train_on_batch(self.with_holes(), normal(7, 3))  # compares loss, gradients and predictions

    def test_many_steps(self):
        back = lambda: layers.LSTM(4, return_sequences=True, go_backwards=True)
        self.check(self.embedded(back, lambda: layers.GRU(4), lambda: layers.Dense(3), steps=300),
                   RANDOM.integers(0, 3, (3, 300)), normal(3, 3), steps=1)

    def test_bf16(self):
        """Places of steps above 256 are not rounded, and what would be is refused."""
        lengths, given = keras.Input((1,)), keras.Input((6, 4))
        mask = layers.Lambda(lambda n: ops.less(ops.cast(ops.arange(6)[None], "float32"), n))(lengths)
        model = keras.Model([given, lengths], layers.LSTM(3)(given, mask=mask))
        model.compile("sgd", "mse")
        with self.assertRaisesRegex(telar.Error, "bf16 would round"):
            tk.use(model, precision="bf16").train_on_batch([normal(5, 6, 4), RANDOM.integers(0, 7, (5, 1))], normal(5, 3))

        model = self.embedded(lambda: layers.LSTM(4), lambda: layers.Dense(3), steps=400)()
        model.compile("sgd", "mse")
        x = RANDOM.integers(0, 3, (3, 400))
        try:
            tk.use(model, precision="bf16").train_on_batch(x, normal(3, 3))
        except telar.Error as error:
            self.skipTest(str(error))
        found = model.predict_on_batch(x)
        tk.release(model)
        numpy.testing.assert_allclose(found, model.predict_on_batch(x), atol=2e-2 * numpy.abs(found).max())

    def test_file(self):
        keras.utils.set_random_seed(0)
        net, loss, make = MODELS["left_padded_classifier"]()
        net.compile("adam", loss)
        x, y = make(6)
        tk.use(net).fit(x, y, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            tk.save(net, os.path.join(folder, "m.telar"))
            loaded = telar.load(os.path.join(folder, "m.telar"))
        numpy.testing.assert_allclose(loaded.predict(x), tk.release(net) or net.predict(x, verbose=0), atol=1e-6)

    def test_what_is_refused(self):
        class Marks(layers.Layer):
            def compute_mask(self, x, mask=None):
                return ops.any(ops.greater(x, 0.3), axis=-1)

            def call(self, x):
                return x

        sequence = lambda: layers.LSTM(4, return_sequences=True)
        for reason, net, x, y in (
                ("mask that depends on what the model computes", self.embedded(Marks, sequence), self.with_holes(), normal(7, 6, 4)),
                ("BatchNormalization takes its statistics", self.embedded(layers.BatchNormalization, sequence), self.with_holes(), normal(7, 6, 4)),
                ("more than 512 steps", self.embedded(lambda: layers.LSTM(4), steps=513), self.with_holes(steps=513), normal(7, 4))):
            with self.subTest(reason):
                model = net()
                model.compile("sgd", "mse")
                with self.assertRaisesRegex(telar.Error, reason):
                    tk.use(model).train_on_batch(x, y)
        model = self.embedded(sequence)()
        model.compile("sgd", "mse")
        with self.assertRaisesRegex(telar.Error, "the output has a mask.*a file cannot say"):
            tk.save(model, "/nowhere/m.telar")


class SeveralOutputs(unittest.TestCase):
    """Losses of several outputs, with their weights and metrics."""

    def net(self, structure):
        x = keras.Input((6,))
        h = layers.Dense(5, activation="tanh", kernel_regularizer="l2")(x)
        images = layers.Reshape((2, 2, 2))(layers.Dense(8, name="before")(h))
        found = {"kind": layers.Dense(4, activation="softmax", name="kind")(h), "area": layers.Dense(2, name="area")(h),
                 "image": layers.Conv2D(3, 1, name="image")(images)}
        return keras.Model(x, structure(found))

    def labels(self, n):
        return {"kind": classes(n, 4), "area": normal(n, 2), "image": normal(n, 2, 2, 3)}

    def check(self, structure, label_structure, compiled, strategy="single", weights=None, **options):
        """weights: a function of the number of samples that gives sample_weight."""
        keras.utils.set_random_seed(0)
        # With TensorFlow, Keras's loss of one output is the mean of the batches' means; Telar's is that of the samples.
        size = 15 if keras.backend.backend() == "tensorflow" else 13
        x, y = normal(size, 6), self.labels(size)
        nets = [self.net(structure), self.net(structure)]
        nets[1].set_weights(nets[0].get_weights())
        for net in nets:
            net.compile(keras.optimizers.SGD(0.1, momentum=0.9), **compiled)
        tk.use(nets[0], strategy=strategy, **options)
        given = {"sample_weight": weights(size)} if weights else {}
        found, right = (net.fit(x, label_structure(y), batch_size=5, epochs=2, shuffle=False, verbose=0, **given).history for net in nets)
        self.assertEqual(list(found), list(right))
        for name in right:
            numpy.testing.assert_allclose(found[name], right[name], rtol=1e-4, atol=1e-6, err_msg=name)
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 1e-5)
        found, right = (net.evaluate(x, label_structure(y), batch_size=5, verbose=0, return_dict=True) for net in nets)
        for name in right:
            self.assertAlmostEqual(found[name], right[name], places=4, msg=name)
        found, right = (net.predict(x, batch_size=4, verbose=0) for net in nets)
        keras.tree.assert_same_structure(found, right)
        for a, b in zip(keras.tree.flatten(found), keras.tree.flatten(right)):
            numpy.testing.assert_allclose(a, b, atol=1e-5)

    def test_lists(self):
        def as_list(named):
            return [named["kind"], named["area"], named["image"]]

        self.check(as_list, as_list, {"loss": ["sparse_categorical_crossentropy", "mse", "mae"], "loss_weights": [1.0, 0.3, 2.0],
                                      "metrics": [["accuracy"], ["mae"], []]}, "mirrored", replicas=2)

    def test_names(self):
        loss = {"area": "mse", "image": keras.losses.Huber(), "kind": "sparse_categorical_crossentropy"}
        weights = {"area": 0.5, "image": 1.0, "kind": 2.0}
        as_list = lambda named: [named["kind"], named["area"], named["image"]]
        self.check(dict, dict, {"loss": loss, "loss_weights": weights, "metrics": {"kind": ["accuracy"], "area": ["mse", "mae"]}})
        self.check(as_list, dict, {"loss": loss, "metrics": {"area": ["mae"]}})

    def test_weights_of_samples(self):
        as_list = lambda named: [named["kind"], named["area"], named["image"]]
        of_samples = lambda n: RANDOM.uniform(0, 2, n).astype("float32")
        of_each = lambda n: {"kind": of_samples(n), "area": of_samples(n), "image": RANDOM.uniform(0, 2, (n, 2, 2)).astype("float32")}
        loss = {"kind": "sparse_categorical_crossentropy", "area": "mse", "image": "mae"}
        for structure, weights, compiled in (
                (as_list, lambda n: as_list(of_each(n)),
                 {"loss": as_list(loss), "loss_weights": [1.0, 0.3, 2.0], "metrics": [["accuracy"], ["mae"], []]}),
                (dict, of_each, {"loss": loss, "loss_weights": {"kind": 2.0, "area": 0.5, "image": 1.0}}),
                (dict, of_each, {"loss": loss | {"area": keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")}})):
            self.check(structure, structure, compiled, "mirrored", weights, replicas=2)
        both = lambda named: [named["kind"], named["area"]]
        self.check(both, both, {"loss": ["sparse_categorical_crossentropy", "mse"]}, weights=of_samples)

    def test_weights_with_masks(self):
        def net():
            given = keras.Input((6,), dtype="int32")
            x = layers.Embedding(5, 4, mask_zero=True)(given)
            steps, last = layers.GRU(4, return_sequences=True)(x), layers.LSTM(3)(x)
            return keras.Model(given, [layers.Dense(3, name="tags")(steps), layers.Dense(2, name="whole")(last)])

        x, y = RANDOM.integers(0, 3, (8, 6)), [RANDOM.integers(0, 3, (8, 6)), normal(8, 2)]
        weights = [RANDOM.uniform(0, 2, (8, 6)).astype("float32"), RANDOM.uniform(0, 2, 8).astype("float32")]
        nets = pair(net, x, lambda model: model.compile(
            keras.optimizers.SGD(0.1), [keras.losses.SparseCategoricalCrossentropy(from_logits=True), "mse"], loss_weights=[0.5, 2.0],
            metrics=[["accuracy"], ["mae"]]))
        tk.use(nets[0], strategy="mirrored", replicas=2)
        for given in ({}, {"sample_weight": weights}):
            for _ in range(3):
                found, right = (model.train_on_batch(x, y, return_dict=True, **given) for model in nets)
                for name in right:
                    self.assertAlmostEqual(float(found[name]), float(right[name]), places=5, msg=name)
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 1e-5)

    def test_one_loss_for_all(self):
        both = lambda named: [named["area"], named["image"]]
        self.check(both, both, {"loss": "mse"})

    def test_metrics_of_predictions(self):
        both = lambda named: [named["area"], named["image"]]
        self.check(both, both, {"loss": "mse", "metrics": [["RootMeanSquaredError"], ["CosineSimilarity"]]})


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


def mlp(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(3, activation="softmax")])


def mlp_data(n=53):
    random = numpy.random.default_rng(3)
    return random.normal(size=(n, 6)).astype("float32"), random.integers(0, 3, n)


def two_mlps(optimizer=lambda: keras.optimizers.SGD(0.1, momentum=0.9), **options):
    """The first is Telar's."""
    nets = [mlp(), mlp()]
    for net in nets:
        net.compile(optimizer(), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return tk.use(nets[0], **options), nets[1]


class State(unittest.TestCase):
    """What passes between Keras and Telar arrives unchanged, and when a callback needs it."""

    def assert_alike(self, a, b, tolerance=2e-5):
        self.assertLess(largest_difference(a.get_weights(), b.get_weights()), tolerance)
        for x, y in zip(a.optimizer.variables, b.optimizer.variables):
            x, y = (ops.convert_to_numpy(v) for v in (x, y))
            numpy.testing.assert_allclose(x, y, rtol=1e-3, atol=tolerance)

    def fit_both(self, nets, **options):
        x, y = mlp_data()
        return [net.fit(x, y, batch_size=16, shuffle=False, verbose=0, **options).history for net in nets]

    def test_optimizers_go_on_where_the_other_stopped(self):
        of = keras.optimizers
        schedule = of.schedules.ExponentialDecay(0.05, 2, 0.5)
        for make in (lambda: of.SGD(0.1), lambda: of.SGD(schedule, momentum=0.9), lambda: of.SGD(0.1, momentum=0.9, nesterov=True),
                     lambda: of.Adam(0.01), lambda: of.Adam(schedule, epsilon=1e-3), lambda: of.Adam(0.01, weight_decay=0.1),
                     lambda: of.AdamW(0.01), lambda: of.RMSprop(0.01), lambda: of.RMSprop(schedule, momentum=0.5, epsilon=1e-3),
                     lambda: of.Adagrad(0.1), lambda: of.Adagrad(0.1, initial_accumulator_value=0.0, epsilon=1e-3),
                     lambda: of.SGD(0.1, momentum=0.9, global_clipnorm=0.1)):
            with self.subTest(str(make().get_config())):
                net, other = two_mlps(make)
                tk.release(net)
                x, y = mlp_data()
                for first, owner in ((0, None), (16, net), (32, None)):
                    if owner is not None:
                        tk.use(owner)
                    for model in (net, other):
                        model.fit(x[first:first + 16], y[first:first + 16], batch_size=6, shuffle=False, verbose=0)
                    tk.release(net)
                self.assert_alike(net, other)

    def test_fit_is_that_of_keras(self):
        nets = two_mlps(strategy="mirrored", replicas=2)
        a, b = self.fit_both(nets, epochs=3, validation_split=0.2)
        self.assertEqual(a.keys(), b.keys())
        for name in b:
            numpy.testing.assert_allclose(a[name], b[name], rtol=1e-4, atol=1e-5)
        x, y = mlp_data()
        numpy.testing.assert_allclose(nets[0].predict(x, batch_size=10, verbose=0), nets[1].predict(x, verbose=0), atol=1e-5)
        numpy.testing.assert_allclose(nets[0].evaluate(x, y, verbose=0), nets[1].evaluate(x, y, verbose=0), rtol=1e-4)
        self.assert_alike(*nets)

    def test_learning_rates_of_callbacks(self):
        nets = two_mlps()
        self.fit_both(nets, epochs=4, callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.3),
                                                 keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10)])
        self.assert_alike(*nets)

    def test_saving_callbacks(self):
        nets = two_mlps()
        with tempfile.TemporaryDirectory() as folder:
            for i, net in enumerate(nets):
                x, y = mlp_data()
                net.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_split=0.2, callbacks=[
                    keras.callbacks.ModelCheckpoint(os.path.join(folder, f"{i}.keras"), save_best_only=True),
                    keras.callbacks.ModelCheckpoint(os.path.join(folder, f"{i}-batch.weights.h5"), save_weights_only=True, save_freq=2)])
            loaded = [keras.models.load_model(os.path.join(folder, f"{i}.keras")) for i in (0, 1)]
            self.assert_alike(*loaded)
            for i, net in enumerate(nets):
                net.load_weights(os.path.join(folder, f"{i}-batch.weights.h5"))
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 2e-5)

    def test_best_weights_are_restored(self):
        nets = two_mlps(lambda: keras.optimizers.SGD(3.0))
        self.fit_both(nets, epochs=6, validation_split=0.3, callbacks=[
            keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)])
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 2e-5)

    def test_callbacks_that_change_weights(self):
        class AfterEpoch(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                self.model.set_weights([w * 0.9 for w in self.model.get_weights()])

        class AfterBatch(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                self.model.layers[0].kernel.assign(self.model.layers[0].kernel * 0.9)

        for kind in (AfterEpoch, AfterBatch):
            nets = two_mlps()
            for net in nets:
                self.fit_both([net], epochs=2, callbacks=[kind()])
            self.assert_alike(*nets)

    def test_weights_that_are_set_between_calls(self):
        nets = two_mlps()
        for net in nets:
            self.fit_both([net])
            net.set_weights([w * 0.5 for w in net.get_weights()])
        x, y = mlp_data()
        numpy.testing.assert_allclose(nets[0].evaluate(x, y, verbose=0), nets[1].evaluate(x, y, verbose=0), rtol=1e-4)
        for net in nets:
            net.set_weights([w * 0.5 for w in net.get_weights()])
            self.fit_both([net])
        self.assert_alike(*nets)

    def test_single_batches(self):
        nets = two_mlps()
        x, y = mlp_data()
        for net in nets:
            for first in (0, 16):
                net.train_on_batch(x[first:first + 16], y[first:first + 16])
                net.set_weights([w * 0.9 for w in net.get_weights()])
            net.test_on_batch(x, y)
        self.assert_alike(*nets)
        numpy.testing.assert_allclose(nets[0].predict_on_batch(x), nets[1].predict_on_batch(x), atol=1e-5)

    def test_data_of_other_forms(self):
        x, y = mlp_data()

        class Parts(keras.utils.PyDataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                return x[16 * i:16 * i + 16], y[16 * i:16 * i + 16]

        nets = two_mlps()
        for net in nets:
            net.fit(Parts(), epochs=2, shuffle=False, verbose=0)
            net.fit((Parts()[i] for i in range(4)), verbose=0)
            history = net.fit(x, y, batch_size=16, shuffle=False, verbose=0, epochs=2,
                              validation_data=(x, y, numpy.linspace(0, 1, len(x)))).history
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 2e-5)
        # With TensorFlow, Keras itself counts a step more: that of the batch that a generator does not have.
        self.assertEqual(int(ops.convert_to_numpy(nets[0].optimizer.iterations)), 20)
        right = nets[0].evaluate(x, y, sample_weight=numpy.linspace(0, 1, len(x)), verbose=0)[0]
        self.assertAlmostEqual(history["val_loss"][-1], right, places=4)

    def test_compiled_again(self):
        nets = two_mlps()
        for net in nets:
            self.fit_both([net])
            net.layers[0].trainable = False
            net.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
        before = nets[0].layers[0].get_weights()
        self.fit_both(nets)
        self.assertEqual(largest_difference(before, nets[0].layers[0].get_weights()), 0)
        self.assert_alike(*nets)

    def test_interrupted_it_keeps_what_it_has(self):
        net, _ = two_mlps()
        before = net.get_weights()

        class Stop(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                if batch == 2:
                    raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.fit_both([net], callbacks=[Stop()])
        self.assertGreater(largest_difference(before, net.get_weights()), 0)
        self.assertEqual(int(ops.convert_to_numpy(net.optimizer.iterations)), 2)

    def test_weights_of_classes_and_samples(self):
        nets = two_mlps()
        self.fit_both(nets, class_weight={0: 1.0, 1: 3.0, 2: 0.5})
        self.fit_both(nets, sample_weight=numpy.linspace(0, 2, 53))
        self.fit_both(nets)
        self.assert_alike(*nets)

    def test_file_predicts_without_keras(self):
        for name in ("mini_xception", "text_transformer", "mnist_convnet"):
            keras.utils.set_random_seed(0)
            net, loss, make = MODELS[name]()
            net.compile("adam", loss, metrics=["accuracy"])
            tk.use(net)
            x, y = make(6)
            net.fit(x, y, verbose=0)
            with tempfile.TemporaryDirectory() as folder:
                tk.save(net, os.path.join(folder, "m.telar"))
                loaded = telar.load(os.path.join(folder, "m.telar"))
            tk.release(net)
            numpy.testing.assert_allclose(loaded.predict(x), net.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
            label = y.reshape(6, 1).astype("float32") if name == "mini_xception" else y
            right = net.evaluate(x, y, verbose=0, return_dict=True)["loss"]
            self.assertAlmostEqual(loaded.evaluate(x, label)["loss"], right, places=4)

    def test_a_file_of_a_model_that_telar_has_not_trained(self):
        net = mlp()
        net.compile("adam", "sparse_categorical_crossentropy")
        with tempfile.TemporaryDirectory() as folder:
            tk.save(net, os.path.join(folder, "m.telar"))
            x, _ = mlp_data()
            numpy.testing.assert_allclose(telar.load(os.path.join(folder, "m.telar")).predict(x), net.predict(x, verbose=0), atol=1e-6)

    def test_model_is_untouched_by_the_reading(self):
        keras.utils.set_random_seed(0)
        net, loss, make = MODELS["text_transformer"]()
        net.compile(keras.optimizers.SGD(0.0), loss)
        nodes = [len(layer._inbound_nodes) for layer in net._flatten_layers()]
        before = net.get_weights()
        tk.use(net).fit(*make(4), verbose=0)
        self.assertEqual(nodes, [len(layer._inbound_nodes) for layer in net._flatten_layers()])
        self.assertEqual(largest_difference(before, net.get_weights()), 0)
        self.assertEqual([layer.rate for layer in net._flatten_layers() if isinstance(layer, layers.Dropout)], [0.0] * 4)

    def test_dropout_does_not_depend_on_the_strategy(self):
        found = []
        for strategy, options in (("single", {}), ("mirrored", {"replicas": 2})):
            keras.utils.set_random_seed(0)
            net = keras.Sequential([keras.Input((6,)), layers.Dense(8), layers.Dropout(0.5, name="drop"),
                                    layers.GaussianNoise(0.1, name="noise"), layers.Dense(3, activation="softmax")])
            net.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
            tk.use(net, strategy=strategy, **options)
            x, y = mlp_data(16)
            found.append(losses_of(net, [(x, y)] * 3))
        self.assertEqual(len(set(found[0])), 3)
        numpy.testing.assert_allclose(found[0], found[1], rtol=1e-5)


class Prepared(unittest.TestCase):
    """Layers that Telar does not have, of the batch alone: Keras computes them before each step, with its own draws."""

    def check(self, x, *parts, **options):
        found, y = [], classes(len(x), 3)
        for is_telars in (True, False):
            keras.utils.set_random_seed(0)
            net = keras.Sequential([keras.Input(x.shape[1:], dtype=str(x.dtype)), *[part() for part in parts], layers.Flatten(), layers.Dense(3)])
            net.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
            if is_telars:
                tk.use(net, **options)
            history = net.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, validation_data=(x, y)).history
            found.append((net, [*history["loss"], *history["val_loss"], *history["accuracy"], *net.evaluate(x, y, verbose=0)],
                          net.predict(x, verbose=0)))
        (net, a, p), (_, b, q) = found
        numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        numpy.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(telar.Error, "a file has no such layer"):
            tk.save(net, "/nowhere/m.telar")

    def images(self, dtype):
        return RANDOM.integers(0, 256, (10, 8, 8, 3)).astype(dtype)

    def test_varied_images(self):
        vary = [lambda: layers.RandomFlip("horizontal", seed=1), lambda: layers.RandomRotation(0.1, seed=2), lambda: layers.Rescaling(1 / 255),
                lambda: layers.Conv2D(4, 3)]
        self.check(self.images("float32"), *vary)
        self.check(self.images("uint8"), *vary, strategy="mirrored", replicas=2)
        self.check(self.images("float32"), lambda: layers.Rescaling(1 / 255), lambda: keras.Sequential(
            [layers.RandomFlip(seed=3), layers.RandomTranslation(0.2, 0.2, seed=4)]), lambda: layers.Conv2D(4, 3, activation="relu"))

    def test_prepared_samples(self):
        self.check(self.images("float32"), lambda: layers.Resizing(4, 4), lambda: layers.CenterCrop(3, 3), lambda: layers.Rescaling(1 / 255))
        self.check(classes(10, 5)[:, None], lambda: layers.CategoryEncoding(num_tokens=5, output_mode="one_hot"), lambda: layers.Dense(4))
        self.check(normal(10, 6), lambda: layers.Discretization([0.0, 0.5], output_mode="one_hot"), lambda: layers.Dense(4))


class Extents(unittest.TestCase):
    """Batches of several lengths."""

    def build(self):
        tokens = keras.Input((None,), dtype="int32")
        return keras.Model(tokens, layers.Dense(4)(layers.LSTM(5, return_sequences=True)(layers.Embedding(9, 3)(tokens))))

    def batches(self, lengths):
        return [(RANDOM.integers(0, 9, (4, length)), RANDOM.integers(0, 4, (4, length))) for length in lengths]

    def test_each_length_is_captured_and_used_again(self):
        keras.utils.set_random_seed(0)
        given = self.batches([3, 2, 3, 3, 2, 2])
        nets = pair(self.build, given[0][0], lambda net: net.compile(
            keras.optimizers.SGD(0.2), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]))
        tk.use(nets[0])
        numpy.testing.assert_allclose(*(losses_of(net, given) for net in nets), rtol=1e-4)
        self.assertEqual(len(nets[0]._telar._parked), 2)
        for length in (2, 4):
            x, y = self.batches([length])[0]
            numpy.testing.assert_allclose(*(net.predict(x, verbose=0) for net in nets), atol=1e-5)
            numpy.testing.assert_allclose(*(net.evaluate(x, y, verbose=0) for net in nets), rtol=1e-4)
        for net in nets:
            net.fit((batch for batch in given), verbose=0)
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 1e-4)

    def test_too_many(self):
        net = self.build()
        net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        tk.use(net, check=False)
        with unittest.mock.patch.object(tk.engine, "MOST_FORMS", 2), self.assertRaisesRegex(telar.Error, "had 2 shapes"):
            losses_of(net, self.batches([1, 2, 1, 3]))


class Doubled(layers.Layer):
    """Reads its variable without a tensor."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

    def call(self, x):
        return x * ops.exp(self.scale)


class Constructs(unittest.TestCase):
    """Those of keras_constructs.py: each trains as by Keras, or is refused by its own name."""

    def check(self, construct, **options):
        net, found = construct(lambda model: tk.use(model, **options))
        right, expected = construct(lambda model: model)
        numpy.testing.assert_allclose(numbers(found), numbers(expected), rtol=2e-4, atol=2e-5)
        self.assertLess(largest_difference(net.get_weights(), right.get_weights()), 1e-4)


def add_construct_test(construct):
    def test(self):
        for options in ({}, {"strategy": "mirrored", "replicas": 2}):
            with self.subTest(str(options)):
                if construct.refused is None:
                    self.check(construct, **options)
                    continue
                with self.assertRaisesRegex(telar.Error, construct.refused):
                    self.check(construct, **options)

    setattr(Constructs, f"test_{construct.__name__}", test)


for each in CONSTRUCTS.values():
    add_construct_test(each)


class Hostile(unittest.TestCase):
    """What is right, or refused with its reason."""

    def fit(self, *parts, loss="mse", optimizer=None, data=None, shape=(6,), net=None, compiled=None, use=None, **options):
        """Trains beside Keras; the values must be equal."""
        keras.utils.set_random_seed(0)

        def build():
            return net() if net else keras.Sequential([keras.Input(shape), *[part() for part in parts], layers.Flatten(), layers.Dense(3)])

        data = data or (normal(10, *shape), normal(10, 3))
        a, b = pair(build, data[0], lambda model: model.compile(
            optimizer() if optimizer else keras.optimizers.SGD(0.05), loss, **(compiled or {})))
        tk.use(a, **(use or {}))
        for model in (a, b):
            model.fit(*data, batch_size=4, shuffle=False, verbose=0, epochs=2, **options)
        self.assertLess(largest_difference(a.get_weights(), b.get_weights()), 1e-4)

    def assert_refused(self, reason, *parts, **options):
        with self.assertRaisesRegex(telar.Error, reason):
            self.fit(*parts, **options)

    def test_inputs_by_name(self):
        """In the order of the model's inputs, not in that of the alphabet."""
        def net(named):
            title, body = keras.Input((4,), name="title"), keras.Input((4,), name="body")
            found = layers.Dense(3)(layers.Concatenate()([layers.Dense(2)(title), body]))
            return keras.Model({"title": title, "body": body} if named else [title, body], found)

        for named in (False, True):
            keras.utils.set_random_seed(0)
            a, b = net(named), net(named)
            b.set_weights(a.get_weights())
            x, y = {"title": normal(10, 4), "body": normal(10, 4)}, normal(10, 3)
            for model in (a, b):
                model.compile(keras.optimizers.SGD(0.05), "mse")
            tk.use(a)
            for model in (a, b):
                model.fit(x, y, batch_size=4, shuffle=False, verbose=0, epochs=2)
            self.assertLess(largest_difference(a.get_weights(), b.get_weights()), 1e-5)
            numpy.testing.assert_allclose(a.predict(x, verbose=0), b.predict(x, verbose=0), rtol=0, atol=1e-5)

    def test_variable_that_is_read_without_a_tensor(self):
        self.assert_refused("read outside of the layers' graph|cannot be called", Doubled)

    def test_variable_in_an_operation_is_right(self):
        class Scaled(Doubled):
            def call(self, x):
                return ops.add(x * self.scale, self.scale)

        self.fit(Scaled)

    def test_variable_of_another_layer(self):
        other = layers.Dense(6)
        other.build((None, 6))

        class Outside(layers.Layer):
            def call(self, x):
                return ops.matmul(x, ops.convert_to_tensor(other.kernel)) if not isinstance(x, keras.KerasTensor) else ops.matmul(x, other.kernel)

        self.fit(Outside)  # a constant for Keras, too: it is not the model's

    def test_counter_in_python(self):
        class Counter(layers.Layer):
            calls = 0

            def call(self, x):
                Counter.calls += 1
                return x * float(Counter.calls)

        self.assert_refused("loss of the first batch", Counter)

    def test_branch_on_a_symbolic_tensor(self):
        class Branch(layers.Layer):
            def call(self, x):
                return 2.0 * x if isinstance(x, keras.KerasTensor) else 3.0 * x

        self.assert_refused("loss of the first batch", Branch)

    def test_variable_that_is_assigned(self):
        class Memory(layers.Layer):
            def build(self, shape):
                self.seen = self.add_weight(shape=(), trainable=False, initializer="zeros", name="seen")

            def call(self, x):
                self.seen.assign_add(1.0)
                return x

        self.assert_refused("is assigned in a call|cannot be called", Memory)

    def test_added_loss(self):
        class Penalty(layers.Layer):
            def call(self, x):
                self.add_loss(ops.mean(ops.square(x)))
                return x

        self.assert_refused("loss of the first batch|cannot be called", Penalty)

    def test_step_of_its_own(self):
        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = layers.Dense(3)

            def call(self, x):
                return self.dense(x)

            def train_step(self, data):
                return super().train_step(data)

        self.assert_refused("train_step of its own", net=Own)

    def test_gradient_of_its_own(self):
        class Turned(layers.Layer):
            def call(self, x):
                return x

        stop = keras.ops.custom_gradient

        @stop
        def turned(x):
            def gradient(*arguments, upstream=None):
                return -2.0 * (arguments[0] if upstream is None else upstream)

            return x, gradient

        Turned.call = lambda self, x: turned(x) if not isinstance(x, keras.KerasTensor) else x * 1.0
        self.assert_refused("gradient of the first batch", lambda: layers.Dense(6), Turned)

    def test_regularizers_are_right(self):
        for rule in ("l1", "l2", keras.regularizers.L1L2(0.02, 0.03)):
            self.fit(lambda: layers.Dense(4, kernel_regularizer=rule, bias_regularizer="l2"))
        self.fit(lambda: layers.Conv2D(4, 3, kernel_regularizer="l2"), shape=(5, 5, 2))

    def test_sums_beside_a_batch_norm(self):
        """Which moves its statistics by those of the batch, whatever the loss is."""
        for options in ({}, {"strategy": "mirrored", "replicas": 2}):
            self.fit(lambda: layers.Dense(4), layers.BatchNormalization, loss=keras.losses.MeanSquaredError(reduction="sum"), use=options,
                     optimizer=lambda: keras.optimizers.SGD(0.005))

    def test_regularizers_with_one_sample_first(self):
        def net():
            return keras.Sequential([keras.Input((6,)), layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.3))])

        batches = [(normal(n, 6), normal(n, 3)) for n in (1, 5, 5)]
        nets = pair(net, batches[0][0], lambda model: model.compile(keras.optimizers.SGD(0.05), "mse"))
        tk.use(nets[0])
        numpy.testing.assert_allclose(*(losses_of(model, batches) for model in nets), rtol=1e-5)

    def test_other_regularizers(self):
        self.assert_refused("activity_regularizer", lambda: layers.Dense(4, activity_regularizer="l2"))
        self.assert_refused("OrthogonalRegularizer", lambda: layers.Dense(4, kernel_regularizer=keras.regularizers.OrthogonalRegularizer()))
        self.assert_refused("loss of the first batch|does not have", lambda: layers.ActivityRegularization(l2=0.1))

    def test_constraints_are_right(self):
        self.fit(lambda: layers.Dense(4, kernel_constraint="non_neg", bias_constraint=keras.constraints.MaxNorm(0.1)))

    def test_frozen_layers_are_right(self):
        self.fit(lambda: layers.Dense(4, trainable=False), lambda: layers.BatchNormalization(trainable=False), lambda: layers.Dense(5))

    def test_shared_layers_are_right(self):
        def net():
            x, y = keras.Input((6,)), keras.Input((6,))
            dense = layers.Dense(4, activation="tanh")
            return keras.Model([x, y], layers.Dense(3)(layers.concatenate([dense(x), dense(y)])))

        self.fit(net=net, data=([normal(10, 6), normal(10, 6)], normal(10, 3)))

    def test_shared_batch_norm(self):
        def net():
            x, norm = keras.Input((6,)), layers.BatchNormalization()
            return keras.Model(x, layers.Dense(3)(norm(layers.Dense(6)(norm(x)))))

        self.assert_refused("called twice", net=net)

    def test_named_inputs_are_right(self):
        def net():
            x, y = keras.Input((6,), name="b"), keras.Input((4,), name="a")
            return keras.Model({"b": x, "a": y}, layers.Dense(3)(layers.concatenate([x, y])))

        keras.utils.set_random_seed(0)
        data = {"a": normal(10, 4), "b": normal(10, 6)}
        y = normal(10, 3)
        nets = [net(), net()]
        nets[1].set_weights(nets[0].get_weights())
        for model in nets:
            model.compile("sgd", "mse")
        tk.use(nets[0])
        for model in nets:
            model.fit(data, y, batch_size=4, shuffle=False, verbose=0)
        self.assertLess(largest_difference(nets[0].get_weights(), nets[1].get_weights()), 1e-5)

    def test_several_outputs(self):
        def net():
            x = keras.Input((6,))
            return keras.Model(x, [layers.Dense(3)(x), layers.Dense(3)(x)])

        two = [normal(10, 3)] * 2
        self.assert_refused("Telar adds means", net=net, data=(normal(10, 6), two),
                            loss=["mse", keras.losses.MeanSquaredError(reduction="sum")])

        class Two(keras.Model):
            def __init__(self):
                super().__init__()
                self.a, self.b = layers.Dense(3), layers.Dense(3)

            def call(self, x):
                return self.a(x), self.b(x)

        self.assert_refused("call of its own with 2 outputs", net=Two, data=(normal(10, 6), two), loss=["mse", "mse"])

    def test_nested_models_are_right(self):
        def net():
            inner_input = keras.Input((5,))
            inner = keras.Model(inner_input, layers.Dense(4, activation="relu")(inner_input), name="inner")
            return keras.Sequential([keras.Input((6,)), keras.Sequential([layers.Dense(5), layers.ReLU()]), inner, layers.Dense(3)])

        self.fit(net=net)

    def test_state_from_batch_to_batch(self):
        def net():
            return keras.Sequential([keras.Input(batch_shape=(5, 4, 3)), layers.LSTM(4, stateful=True), layers.Dense(3)])

        keras.utils.set_random_seed(0)
        model = net()
        model.compile("sgd", "mse")
        with self.assertRaisesRegex(telar.Error, "stateful|shape"):
            tk.use(model).fit(normal(5, 4, 3), normal(5, 3), batch_size=5, verbose=0)

    def test_options_of_recurrent_layers(self):
        self.assert_refused("recurrent_dropout", lambda: layers.LSTM(4, recurrent_dropout=0.2), shape=(5, 4))
        for layer in (lambda: layers.LSTM(4, activation="relu"), lambda: layers.GRU(4, reset_after=False)):
            self.fit(layer, shape=(5, 4))
        for kind in (layers.LSTM, layers.GRU):
            self.fit(lambda: kind(4, unroll=True), shape=(5, 4))

    def test_other_precisions(self):
        for policy in ("mixed_float16", "mixed_bfloat16", "float64"):
            self.assert_refused("computes in|float64|LossScale|float32", lambda: layers.Dense(4, dtype=policy))

    def test_policy_of_all(self):
        keras.config.set_dtype_policy("mixed_float16")
        try:
            self.assert_refused("LossScaleOptimizer|float16", lambda: layers.Dense(4))
        finally:
            keras.config.set_dtype_policy("float32")

    def test_eager_and_compiled(self):
        self.assert_refused("run_eagerly", compiled={"run_eagerly": True})
        if keras.backend.backend() == "tensorflow":
            self.fit(compiled={"jit_compile": True})
            self.fit(compiled={"steps_per_execution": 2})

    def test_options_of_optimizers(self):
        """Keras's own optimizer updates by what Telar has not."""
        of = keras.optimizers

        def excluding():
            optimizer = of.AdamW(0.01, weight_decay=0.1)
            optimizer.exclude_from_weight_decay(var_names=["bias"])
            return optimizer

        for make in (lambda: of.Adam(0.01, clipnorm=0.1), lambda: of.Adam(0.01, clipvalue=0.01), lambda: of.Adam(0.01, amsgrad=True),
                     lambda: of.Adam(0.01, use_ema=True, ema_momentum=0.5), lambda: of.SGD(0.1, use_ema=True, ema_overwrite_frequency=2),
                     lambda: of.SGD(0.1, gradient_accumulation_steps=2), lambda: of.SGD(0.1, loss_scale_factor=2.0),
                     lambda: of.SGD(0.1, global_clipnorm=1e-4), lambda: of.SGD(0.01, weight_decay=0.1), excluding,
                     lambda: of.RMSprop(0.01, centered=True)):
            with self.subTest(str(make().get_config())):
                self.fit(optimizer=make)

    def test_other_optimizers(self):
        class Own(keras.optimizers.SGD):
            def update_step(self, gradient, variable, learning_rate):
                variable.assign_sub(gradient * 0.1)

        of = keras.optimizers
        for make in (of.Nadam, lambda: of.Lion(1e-3), of.Adamax, of.Adadelta, of.Ftrl, Own, lambda: of.LossScaleOptimizer(of.SGD(0.1))):
            with self.subTest(str(make)):
                self.fit(lambda: layers.BatchNormalization(), optimizer=make)
        with self.assertWarnsRegex(UserWarning, "Keras's own optimizer makes the updates, of Telar's gradients: Telar has no optimizer Nadam"):
            self.fit(lambda: layers.Conv2D(4, 3), shape=(5, 5, 2), optimizer=of.Nadam, use={"strategy": "mirrored", "replicas": 2})
        self.assert_refused("each replica of local_sgd", optimizer=of.Nadam, use={"strategy": "local_sgd", "replicas": 2})

    def test_losses_of_other_forms(self):
        class Own(keras.losses.Loss):
            def call(self, y, p):
                return ops.mean(ops.square(y - p), axis=-1)

        self.fit(loss=Own())
        self.fit(loss=Own(reduction="sum"), optimizer=lambda: keras.optimizers.SGD(0.005))
        self.assert_refused("All reduces the axis of the samples", loss="hinge")  # Keras asks whether all labels are 0 or 1
        self.assert_refused("number for each sample|samples", loss=lambda y, p: ops.mean(ops.square(y - p)))
        self.assert_refused("samples", loss=lambda y, p: ops.square(y - p) / ops.sum(p, axis=0, keepdims=True))

    def test_layers_that_mix_samples(self):
        self.assert_refused("samples", lambda: layers.Lambda(lambda x: x - ops.mean(x, axis=0, keepdims=True)))

    def test_batch_size_in_a_shape(self):
        self.fit(lambda: layers.Lambda(lambda x: ops.reshape(x, (ops.shape(x)[0], 2, 3))))
        self.assert_refused("only as -1|samples", lambda: layers.Lambda(
            lambda x: ops.reshape(ops.reshape(x, (ops.shape(x)[0] * 2, 3)), (-1, 6))))

    def test_layers_that_telar_does_not_have(self):
        self.assert_refused("layer 'conv3d.*Conv3D", lambda: layers.Conv3D(2, 2), shape=(4, 4, 4, 1))
        self.assert_refused("interpolates", lambda: layers.UpSampling2D(interpolation="bilinear"), shape=(4, 4, 1))
        self.assert_refused("RandomFlip", lambda: layers.Conv2D(1, 1), lambda: layers.RandomFlip(), shape=(4, 4, 1))
        self.assert_refused("noise_shape", lambda: layers.Dropout(0.3, noise_shape=(None, 1)))
        self.assert_refused("output_padding", lambda: layers.Conv2DTranspose(2, 3, strides=2, output_padding=1), shape=(4, 4, 1))

    def test_dropout_in_evaluation(self):
        class Always(layers.Layer):
            def __init__(self):
                super().__init__()
                self.dropout = layers.Dropout(0.5)

            def call(self, x):
                return self.dropout(x, training=True)

        self.assert_refused("in evaluation", Always)

    def test_modes_of_layers_within_layers(self):
        class Frozen(layers.Layer):
            def __init__(self):
                super().__init__()
                self.norm, self.other, self.dropout = layers.BatchNormalization(), layers.BatchNormalization(), layers.Dropout(0.5)

            def call(self, x):
                return self.other(self.dropout(self.norm(x, training=False), training=False))

        self.fit(Frozen)

    def test_metrics_in_training(self):
        self.fit(compiled={"metrics": [keras.metrics.RootMeanSquaredError(), "cosine_similarity"]})
        self.assert_refused("metrics root_mean_squared_error", lambda: layers.Dropout(0.2),
                            compiled={"metrics": [keras.metrics.RootMeanSquaredError()]})
        self.assert_refused("weighted_metrics", compiled={"weighted_metrics": ["mse"]}, sample_weight=numpy.ones(10))

    def test_wrong_batches(self):
        net = keras.Sequential([keras.Input((6,)), layers.Embedding(5, 4), layers.Flatten(), layers.Dense(3)])
        net.compile("sgd", "mse")
        tk.use(net)
        for tokens, reason in ((numpy.full((10, 6), 5), "knows 0 to 4"), (normal(10, 6), "not whole")):
            with self.assertRaisesRegex(telar.Error, reason):
                net.fit(tokens, normal(10, 3), verbose=0)
        for loss, y, reason in (("mse", normal(10, 1), "labels have the shape"),
                                ("sparse_categorical_crossentropy", numpy.arange(10), "knows 0 to 2")):
            net = mlp()
            net.compile("sgd", loss)
            with self.assertRaisesRegex(telar.Error, reason):
                tk.use(net).fit(normal(10, 6), y, verbose=0)

    def test_not_finite(self):
        self.assert_refused("not finite|first batch is nan", data=(numpy.full((10, 6), numpy.nan, "float32"), normal(10, 3)))

    def test_not_a_model(self):
        with self.assertRaisesRegex(telar.Error, "takes models of Keras"):
            tk.use(layers.Dense(3))
        with self.assertRaisesRegex(telar.Error, "did you mean 'mirrored'"):
            tk.use(mlp(), strategy="mirored")
        with self.assertRaisesRegex(telar.Error, "not compiled"):
            tk.save(mlp(), "/nowhere/m.telar")


if __name__ == "__main__":
    unittest.main(verbosity=1)
