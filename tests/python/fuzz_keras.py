#!/usr/bin/env python3
"""Random small models of Keras, trained by Keras and by Telar under a random strategy: the same, or refused.

    KERAS_BACKEND=torch python tests/python/fuzz_keras.py [PROGRAMS] [--seed SEED]

A program has a functional model with one or two branches, a loss for each output, weights, metrics, an optimizer with options, a
schedule, callbacks, and calls of fit, evaluate and train_on_batch between which it changes something. The numbers that it sees and
its weights must be Keras's. A telar.Error is counted as a refusal. What is wrong is printed with its seed:
`fuzz_keras.py 1 --seed SEED` runs it again.
"""

import argparse
import collections
import os
import random
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import numpy
    import keras
    from keras import layers, ops
except ModuleNotFoundError:
    print("fuzz_keras: SKIPPED, there is no Keras with a backend; scripts/install-peers installs both")
    sys.exit(77)

import telar
import telar.keras as tk

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from keras_constructs import callback, numbers, shrinks  # noqa: E402: the folder must be on the path first

STRATEGIES = [("single", {})] * 3 + [("mirrored", {"replicas": 2}), ("mirrored", {"replicas": 3}), ("sharded", {"replicas": 2}),
                                    ("pipeline", {"stages": 2})]
of = keras.optimizers
l2 = keras.regularizers.L2(0.02)

LAYERS = {
    "dense": lambda w: layers.Dense(w, "tanh"), "regular dense": lambda w: layers.Dense(w, "silu", kernel_regularizer=l2, bias_regularizer="l1"),
    "constrained dense": lambda w: layers.Dense(w, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.7)),
    "frozen dense": lambda w: layers.Dense(w, "gelu", trainable=False), "norm": lambda w: layers.BatchNormalization(momentum=0.8),
    "frozen norm": lambda w: layers.BatchNormalization(trainable=False), "layer norm": lambda w: layers.LayerNormalization(),
    "softplus": lambda w: layers.Activation("softplus"), "rescaling": lambda w: layers.Rescaling(0.5, 0.1),
    "lambda": lambda w: layers.Lambda(lambda x: x * ops.sigmoid(x)), "dropout of nothing": lambda w: layers.Dropout(0.0),
    "nested": lambda w: keras.Sequential([layers.Input((w,)), layers.Dense(w, "tanh"), layers.Dense(w)]),
    "recurrent": lambda w: keras.Sequential([layers.Input((w,)), layers.Reshape((w, 1)), layers.GRU(w)]),
    "convolution": lambda w: keras.Sequential([layers.Input((w,)), layers.Reshape((w, 1)), layers.Conv1D(3, 3, padding="same"),
                                               layers.GlobalAveragePooling1D(), layers.Dense(w)]),
}

OPTIMIZERS = {
    "SGD": lambda: of.SGD(0.1), "momentum": lambda: of.SGD(0.05, momentum=0.8, nesterov=True), "Adam": lambda: of.Adam(0.01, epsilon=1e-3),
    "AdamW": lambda: of.AdamW(0.01, weight_decay=0.1, epsilon=1e-3), "RMSprop": lambda: of.RMSprop(0.005, epsilon=1e-2, momentum=0.5),
    "Adagrad": lambda: of.Adagrad(0.05, epsilon=1e-2), "clipnorm": lambda: of.SGD(0.2, clipnorm=0.2), "clipvalue": lambda: of.Adam(0.01, clipvalue=0.05),
    "global_clipnorm": lambda: of.SGD(0.2, momentum=0.5, global_clipnorm=0.3), "average": lambda: of.SGD(0.1, use_ema=True, ema_momentum=0.6),
    "accumulation": lambda: of.Adam(0.01, epsilon=1e-3, gradient_accumulation_steps=2), "Nadam": lambda: of.Nadam(0.01, epsilon=1e-3),
    "cosine": lambda: of.SGD(of.schedules.CosineDecay(0.2, 8)), "decay": lambda: of.Adam(of.schedules.ExponentialDecay(0.01, 3, 0.5), epsilon=1e-3),
}

CLASSES = {
    "sparse": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "sum": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
    "weighted mean": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
    "own": lambda: lambda y, p: ops.sum(ops.square(p - ops.one_hot(ops.cast(y, "int32"), 3)), -1),
}
NUMBERS = {"mse": lambda: "mse", "mae of": lambda: "mean_absolute_error", "huber": lambda: keras.losses.Huber(0.5), "log cosh": lambda: "log_cosh"}

METRICS = {"none": lambda: [], "accuracy": lambda: ["accuracy"], "several": lambda: ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")]}


def falls(self, *_):
    self.model.optimizer.learning_rate = 0.8 * float(ops.convert_to_numpy(self.model.optimizer.learning_rate))


def freezes(self, epoch):
    self.model.layers[1].trainable = epoch != 1


CALLBACKS = {
    "weights after batches": lambda: [callback(on_train_batch_end=shrinks)], "weights after epochs": lambda: [callback(on_epoch_end=shrinks)],
    "weights in validation": lambda: [callback(on_test_batch_begin=shrinks)], "rate of epochs": lambda: [callback(on_epoch_begin=falls)],
    "best": lambda: [keras.callbacks.EarlyStopping("val_loss", patience=0, restore_best_weights=True)],
    "plateau": lambda: [keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=0.5)], "freezing": lambda: [callback(on_epoch_begin=freezes)],
}

CHANGES = {
    "weights": lambda net: net.set_weights([0.9 * w for w in net.get_weights()]),
    "frozen and compiled": lambda net: (setattr(net.layers[1], "trainable", False), net.compile(of.SGD(0.1), net.loss)),
    "frozen": lambda net: setattr(net.layers[1], "trainable", False), "steps": lambda net: net.optimizer.iterations.assign(1),
    "optimizer": lambda net: net.compile(of.Adam(0.02), net.loss), "prediction": lambda net: net.predict(numpy.ones((3, 5), "float32"), verbose=0),
}


class Program:
    """The program of a seed."""

    def __init__(self, seed):
        self.seed, chance = seed, random.Random(seed)
        pick = chance.choice
        self.strategy, self.options = pick(STRATEGIES)
        self.width, self.batch = pick([4, 6, 8]), pick([6, 8, 10, 16])
        self.plan = [pick(list(LAYERS)) for _ in range(chance.randint(1, 4))]
        self.merge = pick([None, None, "add", "multiply", "shared"])
        self.loss, self.second = pick(list(CLASSES)), pick([None, None, *NUMBERS])
        self.weights = pick([None, None, "samples", "classes"]) if self.second is None else pick([None, "outputs"])
        self.optimizer = pick(list(OPTIMIZERS))
        self.metrics = pick(list(METRICS)) if self.second is None else "none"
        self.callback = pick([None, None, *CALLBACKS])
        self.change = pick([None, *CHANGES])

    def __str__(self):
        return f"seed {self.seed}: " + ", ".join(f"{name} {value}" for name, value in vars(self).items() if name != "seed")

    def model(self):
        keras.utils.set_random_seed(self.seed)
        x = layers.Input((5,))
        h = start = layers.Dense(self.width, "tanh")(x)
        for name in self.plan:
            layer = LAYERS[name](self.width)
            h = layer(h)
        if self.merge == "shared":
            layer = layers.Dense(self.width, "tanh", kernel_regularizer=l2)
            h = layers.Add()([layer(h), layer(start)])
        elif self.merge:
            h = (layers.Add if self.merge == "add" else layers.Multiply)()([h, start])
        outputs = [layers.Dense(3, name="classes")(h)]
        if self.second:
            outputs.append(layers.Dense(1, name="number")(h))
        return keras.Model(x, outputs if self.second else outputs[0])

    def run(self, use):
        """The model, and the numbers that the program sees."""
        chance = numpy.random.RandomState(self.seed % 2**32)
        x, y, number = chance.randn(34, 5).astype("float32"), chance.randint(0, 3, 34), chance.randn(34, 1).astype("float32")
        weight = chance.rand(34).astype("float32") + 0.1
        net = self.model()
        losses = [CLASSES[self.loss](), NUMBERS[self.second]()] if self.second else CLASSES[self.loss]()
        net.compile(OPTIMIZERS[self.optimizer](), losses, metrics=METRICS[self.metrics]() or None,
                    loss_weights=[0.7, 0.3] if self.weights == "outputs" else None)
        use(net)
        labels = [y, number] if self.second else y
        given = {"samples": {"sample_weight": weight}, "classes": {"class_weight": {0: 0.5, 2: 2.0}},
                 "outputs": {"sample_weight": [weight, 1 - 0.5 * weight]}}.get(self.weights, {})
        options = {"batch_size": self.batch, "shuffle": False, "verbose": 0}
        callbacks = CALLBACKS[self.callback]() if self.callback else []
        found = [net.fit(x, labels, epochs=3, validation_data=(x[:9], [y[:9], number[:9]] if self.second else y[:9]), callbacks=callbacks,
                         **options, **given).history]
        if self.change:
            CHANGES[self.change](net)
        found += [net.fit(x, labels, epochs=2, **options, **given).history, net.evaluate(x, labels, batch_size=7, verbose=0),
                  net.train_on_batch(x[:5], [y[:5], number[:5]] if self.second else y[:5]), net.predict(x, batch_size=9, verbose=0)]
        if self.second and keras.backend.backend() == "tensorflow":  # of several losses, each is a mean over the batches there
            found[:2] = [{name: values for name, values in one.items() if not name.endswith(("classes_loss", "number_loss"))} for one in found[:2]]
            found[2:4] = [one[:1] for one in found[2:4]]
        return net, [numbers(one) for one in found]


def outcome(program):
    """(kind, text) of a program: engine, keras, refused or WRONG."""
    try:
        right, expected = program.run(lambda net: net)
    except Exception as error:
        return "not of Keras", f"{type(error).__name__}: {error}"
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            net, found = program.run(lambda net: tk.use(net, strategy=program.strategy, threads=2, **program.options))
    except telar.Error as error:
        return "refused", str(error)
    except Exception as error:  # one that Keras did not have
        return "WRONG", f"{type(error).__name__}: {error}"
    worst = max(largest(a, b) for a, b in (*zip(found, expected), *zip(net.get_weights(), right.get_weights())))
    by_keras = any("Keras's own optimizer" in str(each.message) for each in told)
    return ("WRONG", f"numbers are off by {worst:.2g}") if not worst <= 2e-4 else ("keras" if by_keras else "engine", "")


def largest(a, b):
    if a.shape != b.shape:
        return numpy.inf
    return float((numpy.abs(a - b) / numpy.maximum(1.0, numpy.abs(b))).max()) if a.size else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="?", type=int, default=40)
    parser.add_argument("--seed", type=int, help="of the first program; the others follow. By chance without it")
    parser.add_argument("--verbose", action="store_true", help="shows each program")
    given = parser.parse_args()
    first = random.randrange(10**6) if given.seed is None else given.seed
    print(f"fuzz_keras: {given.programs} programs from --seed {first}, with {keras.backend.backend()}", flush=True)
    warnings.simplefilter("ignore")
    found = collections.Counter()
    for seed in range(first, first + given.programs):
        program = Program(seed)
        kind, text = outcome(program)
        found[kind] += 1
        if given.verbose or kind == "WRONG":
            print(f"{kind} {text[:300]}\n  {program}", flush=True)
    print(f"fuzz_keras: {dict(found)}")
    return 1 if found["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
