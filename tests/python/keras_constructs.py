"""What users of Keras attach to a model, its optimizer and its training, and change as it goes.

Each construct is written once: a function of `use`, which gives a compiled model to Telar or leaves it to Keras. It returns the
model and the numbers that the program saw. Those of Telar must be Keras's, or a telar.Error names the construct.
"""

import functools
import os
import tempfile

import keras
import numpy
from keras import layers, ops

CONSTRUCTS = {}
IS_TORCH = keras.backend.backend() == "torch"
CHANCE = numpy.random.RandomState(0)
X = CHANCE.randn(48, 6).astype("float32")
Y = CHANCE.randint(0, 3, 48)
TARGETS = CHANCE.randn(48, 1).astype("float32")
WEIGHTS = CHANCE.rand(48).astype("float32") + 0.2
TOKENS = CHANCE.randint(1, 11, (48, 5))
SEQUENCES = CHANCE.randn(48, 5, 4).astype("float32")
IMAGES = CHANCE.rand(48, 8, 8, 3).astype("float32")
of = keras.optimizers
Callback = keras.callbacks.Callback


def construct(function=None, *, refused=None):
    """refused: what the error of a construct that is refused has in it."""
    if function is None:
        return functools.partial(construct, refused=refused)
    function.refused = refused
    CONSTRUCTS[function.__name__] = function
    return function


def cross_entropy(**options):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def mlp(*between, **options):
    keras.utils.set_random_seed(0)
    return keras.Sequential([layers.Input((6,)), layers.Dense(8, "tanh", **options), *between, layers.Dense(3)])


def fitted(use, net=None, optimizer=None, loss=None, metrics=("accuracy",), compiled=None, x=X, y=Y, **options):
    """A model that was compiled and trained, and its history."""
    net = net or mlp()
    net.compile(optimizer or of.SGD(0.3, momentum=0.5), loss or cross_entropy(), metrics=list(metrics), **(compiled or {}))
    use(net)
    return net, net.fit(x, y, **{"epochs": 3, "batch_size": 16, "verbose": 0, "shuffle": False, **options}).history


def again(net, batch_size=16):
    return net.fit(X, Y, batch_size=batch_size, verbose=0, shuffle=False).history["loss"]


def callback(**hooks):
    """A callback with these functions of (callback, number of the epoch or the batch)."""
    return type("Own", (Callback,), {name: lambda self, *given, logs=None, hook=hook: hook(self, *given[:1]) for name, hook in hooks.items()})()


# Callbacks


@construct
def best_weights_are_restored(use):
    return fitted(use, optimizer=of.SGD(3.0), epochs=8, validation_split=0.25,
                  callbacks=[keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)])


@construct
def rate_on_a_plateau(use):
    return fitted(use, optimizer=of.SGD(1.0), epochs=8, callbacks=[keras.callbacks.ReduceLROnPlateau("loss", factor=0.3, patience=1, min_delta=0.1)])


@construct
def rate_of_each_batch(use):
    def rate(self, batch):
        self.model.optimizer.learning_rate = 0.1 / (1 + batch)

    return fitted(use, callbacks=[callback(on_train_batch_begin=rate)])


@construct
def momentum_of_each_epoch(use):
    def momentum(self, epoch):
        self.model.optimizer.momentum = 0.1 + 0.2 * epoch

    return fitted(use, callbacks=[callback(on_epoch_begin=momentum)])


@construct
def momentum_of_each_batch(use):
    def momentum(self, batch):
        self.model.optimizer.momentum = 0.1 + 0.2 * batch

    return fitted(use, callbacks=[callback(on_train_batch_begin=momentum)])


@construct
def weights_are_limited_after_each_batch(use):
    def limit(self, batch):
        for variable in self.model.trainable_variables:
            variable.assign(ops.clip(variable, -0.2, 0.2))

    return fitted(use, callbacks=[callback(on_train_batch_end=limit)])


@construct
def mean_of_the_weights(use):
    def add(self, epoch):
        self.sums = [a + b for a, b in zip(getattr(self, "sums", self.model.get_weights()), self.model.get_weights())]

    return fitted(use, callbacks=[callback(on_epoch_end=add, on_train_end=lambda self, *_: self.model.set_weights([0.25 * w for w in self.sums]))])


@construct
def other_weights_for_validation(use):
    def swap(self, *_):
        self.before = self.model.get_weights()
        self.model.set_weights([0.5 * w for w in self.before])

    return fitted(use, validation_split=0.25, callbacks=[callback(on_test_begin=swap, on_test_end=lambda self, *_: self.model.set_weights(self.before))])


def shrinks(self, *_):
    self.model.set_weights([0.9 * w for w in self.model.get_weights()])


@construct
def weights_change_within_a_validation(use):
    return fitted(use, validation_split=0.5, batch_size=8, callbacks=[callback(on_test_batch_begin=shrinks)])


@construct
def weights_change_within_an_evaluation(use):
    net, _ = fitted(use)
    return net, net.evaluate(X, Y, batch_size=8, verbose=0, callbacks=[callback(on_test_batch_begin=shrinks)])


@construct
def weights_change_within_a_prediction(use):
    net, _ = fitted(use)
    return net, net.predict(X, batch_size=8, verbose=0, callbacks=[callback(on_predict_batch_begin=shrinks)])


@construct
def predictions_within_an_epoch(use):
    net, found = mlp(), []
    net.compile("adam", cross_entropy())
    use(net)
    net.fit(X, Y, verbose=0, shuffle=False, callbacks=[callback(on_train_batch_end=lambda self, batch: found.append(net.predict(X[:4], verbose=0)))])
    return net, found


@construct
def training_ends_within_an_epoch(use):
    def stop(self, batch):
        self.model.stop_training |= batch == 1

    return fitted(use, callbacks=[callback(on_train_batch_end=stop)])


@construct
def files_of_the_best(use):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best.weights.h5")
        net, history = fitted(use, optimizer=of.SGD(2.0), epochs=5, validation_split=0.25,
                              callbacks=[keras.callbacks.ModelCheckpoint(path, save_best_only=True, save_weights_only=True)])
        net.load_weights(path)
    return net, history


@construct
def averages_are_swapped_in(use):
    return fitted(use, optimizer=of.Adam(0.01, use_ema=True, ema_momentum=0.5), validation_split=0.25,
                  callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)])


@construct
def trainable_in_a_callback(use):
    def freeze(self, epoch):
        self.model.layers[0].trainable = epoch % 2 == 0

    return fitted(use, epochs=4, callbacks=[callback(on_epoch_begin=freeze)])


# Steps and losses of one's own


@construct(refused="train_step of its own")
def step_of_the_object(use):
    net = mlp()
    net.compile("adam", cross_entropy())
    net.train_step = lambda data, step=net.train_step: step(data)
    use(net)
    return net, again(net)


@construct(refused="compute_loss of its own")
def loss_of_the_object(use):
    net = mlp()
    net.compile("adam", cross_entropy())
    net.compute_loss = lambda *given, loss=net.compute_loss, **named: 3 * loss(*given, **named)
    use(net)
    return net, again(net)


@construct(refused="compute_loss of its own" if IS_TORCH else None)
def loss_of_the_object_after_use(use):
    net = mlp()
    net.compile("adam", cross_entropy())
    use(net)
    again(net)
    net.compute_loss = lambda *given, loss=net.compute_loss, **named: 3 * loss(*given, **named)
    return net, again(net)


@construct(refused="add_loss")
def added_loss(use):
    class Penalised(layers.Layer):
        def call(self, x):
            self.add_loss(0.1 * ops.mean(ops.square(x)))
            return x

    return fitted(use, mlp(Penalised()))


@construct(refused="activity_regularizer")
def activity_regularizer(use):
    return fitted(use, mlp(layers.Dense(4, activity_regularizer="l2")))


@construct
def regularizers_of_all_kinds(use):
    return fitted(use, mlp(layers.Dense(4, kernel_regularizer=keras.regularizers.L1L2(0.01, 0.02), bias_regularizer="l2"),
                           layers.BatchNormalization(gamma_regularizer="l2")))


@construct
def regularizer_of_a_shared_layer(use):
    keras.utils.set_random_seed(0)
    x, layer = layers.Input((6,)), layers.Dense(6, "tanh", kernel_regularizer="l2")
    return fitted(use, keras.Model(x, layers.Dense(3)(layer(layer(x)))))


@construct
def constraints(use):
    return fitted(use, mlp(layers.Dense(4, kernel_constraint=keras.constraints.MaxNorm(0.5), bias_constraint="non_neg")))


# Numbers in Python: with TensorFlow, they have an effect until the first step only


class Scaled(layers.Layer):
    factor = 1.0

    def __init__(self):
        super().__init__()
        self.factor = 1.0

    def call(self, x):
        return x * self.factor


@construct
def number_of_a_layer(use):
    layer = Scaled()

    def change(self, epoch):
        layer.factor = 1.0 + epoch

    return fitted(use, mlp(layer), callbacks=[callback(on_epoch_begin=change)])


@construct
def number_of_a_layer_before_the_first_step(use):
    layer = Scaled()
    net = mlp(layer)
    net.compile(of.SGD(0.3), cross_entropy())
    use(net)
    net.evaluate(X, Y, verbose=0)
    layer.factor = 3.0
    return net, again(net)


@construct
def number_of_a_norm(use):
    layer = layers.BatchNormalization(momentum=0.9)

    def change(self, epoch):
        layer.momentum = 0.5

    return fitted(use, mlp(layer), callbacks=[callback(on_epoch_end=change)])


@construct
def number_of_a_regularizer(use):
    rule = keras.regularizers.L2(0.01)

    def change(self, epoch):
        rule.l2 = 0.1 * epoch

    return fitted(use, mlp(kernel_regularizer=rule), callbacks=[callback(on_epoch_begin=change)])


@construct
def number_of_a_loss(use):
    class Weighted(keras.losses.Loss):
        factor = 1.0

        def __init__(self):
            super().__init__()
            self.factor = 1.0

        def call(self, y, prediction):
            return self.factor * keras.losses.sparse_categorical_crossentropy(y, prediction, from_logits=True)

    loss = Weighted()

    def change(self, epoch):
        loss.factor = 1.0 + epoch

    return fitted(use, loss=loss, metrics=(), callbacks=[callback(on_epoch_begin=change)])


@construct(refused="has changed in Python" if IS_TORCH else None)
def global_number(use):
    factors = [1.0]

    def change(self, epoch):
        factors[0] = 1.0 + epoch

    def loss(y, prediction):
        return factors[0] * keras.losses.sparse_categorical_crossentropy(y, prediction, from_logits=True)

    return fitted(use, loss=loss, metrics=(), callbacks=[callback(on_epoch_begin=change)])


@construct
def variable_of_a_layer(use):
    class Gated(layers.Layer):
        def build(self, shape):
            self.gate = self.add_weight(shape=(), initializer="ones", trainable=False)

        def call(self, x):
            return x * self.gate

    layer = Gated()
    return fitted(use, mlp(layer), callbacks=[callback(on_epoch_begin=lambda self, epoch: layer.gate.assign(1.0 + epoch))])


# Inputs, outputs and weights


def two_headed(named_inputs=False, named_outputs=False):
    keras.utils.set_random_seed(0)
    x, z = layers.Input((6,), name="zz"), layers.Input((1,), name="aa")
    hidden = layers.Dense(8, "tanh")(layers.Concatenate()([x, z]))
    classes, number = layers.Dense(3, name="classes")(hidden), layers.Dense(1, name="number")(hidden)
    return keras.Model({"zz": x, "aa": z} if named_inputs else [x, z], {"classes": classes, "number": number} if named_outputs else [classes, number])


@construct
def inputs_and_outputs_by_name(use):
    return fitted(use, two_headed(True, True), of.Adam(0.01), loss={"classes": cross_entropy(), "number": "mse"}, metrics=(),
                  compiled={"loss_weights": {"classes": 0.3, "number": 2.0}}, x={"aa": TARGETS, "zz": X}, y={"number": TARGETS, "classes": Y})


@construct
def weights_of_each_output(use):
    return fitted(use, two_headed(), of.Adam(0.01), loss=[cross_entropy(), "mse"], metrics=[["accuracy"], ["mae"]], compiled={"loss_weights": [0.3, 2.0]},
                  x=[X, TARGETS], y=[Y, TARGETS], sample_weight=[WEIGHTS, 1 + WEIGHTS])


@construct
def weights_of_some_classes(use):
    return fitted(use, class_weight={0: 0.2})


@construct
def weights_in_training_and_validation(use):
    return fitted(use, sample_weight=WEIGHTS, validation_data=(X[:20], Y[:20], WEIGHTS[:20]), validation_freq=2, epochs=4)


@construct(refused="weighted_metrics")
def weighted_metrics(use):
    return fitted(use, compiled={"weighted_metrics": ["accuracy"]}, sample_weight=WEIGHTS)


# Optimizers


@construct
def limits_of_gradients(use):
    found = []
    for options in ({"clipnorm": 0.1}, {"clipvalue": 0.01}, {"global_clipnorm": 0.1}, {"global_clipnorm": 1e-3}):
        net, history = fitted(use, optimizer=of.SGD(0.5, momentum=0.9, **options))
        found += [history["loss"], *net.get_weights()]
    return net, found


@construct
def weight_decay_that_leaves_biases_out(use):
    optimizer = of.AdamW(0.05, weight_decay=0.3)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return fitted(use, optimizer=optimizer)


@construct
def gradients_of_several_batches(use):
    return fitted(use, optimizer=of.Adam(0.05, gradient_accumulation_steps=2))


@construct
def optimizer_with_a_step_of_its_own(use):
    class Signs(of.SGD):
        def update_step(self, gradient, variable, learning_rate):
            super().update_step(ops.sign(gradient), variable, learning_rate)

    return fitted(use, optimizer=Signs(0.01))


@construct
def optimizer_whose_functions_are_replaced(use):
    optimizer = of.SGD(0.1)
    pairs, apply = optimizer.apply_gradients, optimizer.apply
    optimizer.apply_gradients = lambda given: pairs([(0.5 * gradient, variable) for gradient, variable in given])
    optimizer.apply = lambda gradients, variables=None: apply([0.5 * gradient for gradient in gradients], variables)
    return fitted(use, optimizer=optimizer)


@construct
def rate_by_a_schedule_of_ones_own(use):
    class Falling(of.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.3 / (1 + ops.cast(step, "float32"))

    return fitted(use, optimizer=of.Adam(Falling()))


@construct
def state_that_is_reset(use):
    net, _ = fitted(use, optimizer=of.Adam(0.05, epsilon=1e-3))
    net.optimizer.iterations.assign(0)
    for variable in net.optimizer.variables[2:]:
        variable.assign(ops.zeros_like(variable))
    return net, again(net)


# Layers that are frozen, shared, nested


@construct
def trainable_without_compile(use):
    net, _ = fitted(use)
    net.layers[0].trainable = False
    return net, [again(net), again(net, 20)]


@construct
def trainable_between_batches_of_other_sizes(use):
    net, found = mlp(layers.BatchNormalization(momentum=0.5)), []
    net.compile(of.Adam(0.05, epsilon=1e-3), cross_entropy())
    use(net)
    for size, trainable in [(16, True), (16, False), (20, False), (16, False), (16, True), (12, True), (20, True), (16, False)]:
        net.layers[0].trainable = trainable
        found += [net.train_on_batch(X[:size], Y[:size]) for _ in range(2)]
    return net, found


def over_lengths(use, steps):
    """A model of sequences, trained on batches of so many samples and steps, each with its first layer trained or not."""
    keras.utils.set_random_seed(0)
    net = keras.Sequential([layers.Input((None, 4)), layers.Dense(5, "tanh"), layers.GlobalAveragePooling1D(), layers.Dense(3)])
    net.compile(of.SGD(0.3), cross_entropy())
    use(net)
    found = []
    for size, length, trainable in steps:
        net.layers[0].trainable = trainable
        found.append(net.train_on_batch(SEQUENCES[:size, :length], Y[:size]))
    return net, found


@construct
def trainable_between_lengths(use):
    return over_lengths(use, [(16, 5, True), (16, 5, False), (16, 3, False), (16, 5, True), (16, 3, True), (16, 4, False)])


@construct(refused=None if IS_TORCH else "traced")
def trainable_before_a_length_that_is_traced(use):
    return over_lengths(use, [(16, 5, True), (16, 3, True), (16, 4, False), (12, 4, False)])


@construct
def norm_frozen_without_compile(use):
    norm = layers.BatchNormalization(momentum=0.5)
    net, _ = fitted(use, mlp(norm))
    norm.trainable = False
    return net, again(net)


@construct
def frozen_model_within_a_model(use):
    keras.utils.set_random_seed(0)
    base = keras.Sequential([layers.Input((6,)), layers.Dense(5, "relu", kernel_regularizer="l2"), layers.BatchNormalization()])
    base.trainable = False
    x = layers.Input((6,))
    return fitted(use, keras.Model(x, layers.Dense(3)(base(x))))


@construct
def norms_called_with_a_mode(use):
    keras.utils.set_random_seed(0)
    x, first, second = layers.Input((6,)), layers.BatchNormalization(), layers.BatchNormalization(momentum=0.7)
    net = keras.Model(x, layers.Dense(3)(second(layers.Dense(8, "tanh")(first(x, training=False)), training=True)))
    first.moving_variance.assign(0.3 * ops.ones(6))
    return fitted(use, net, validation_split=0.25)


@construct
def two_models_of_the_same_layers(use):
    keras.utils.set_random_seed(0)
    x = layers.Input((6,))
    hidden, found = layers.Dense(8, "tanh")(x), []
    nets = [keras.Model(x, layers.Dense(3)(hidden)) for _ in range(2)]
    for net in nets:
        net.compile(of.SGD(0.1), cross_entropy())
        use(net)
    for _ in range(3):
        found += [net.train_on_batch(X[:16], Y[:16]) for net in nets] + [again(net)[0] for net in nets]
    return nets[1], found


# Data and metrics


@construct
def images_that_vary(use):
    keras.utils.set_random_seed(0)
    return fitted(use, keras.Sequential([layers.Input((8, 8, 3)), layers.RandomFlip(seed=3), layers.RandomContrast(0.3, seed=4), layers.Flatten(),
                                         layers.Dense(3)]), x=IMAGES)


@construct
def bytes_as_images(use):
    keras.utils.set_random_seed(0)
    return fitted(use, keras.Sequential([layers.Input((8, 8, 3)), layers.Rescaling(1 / 255), layers.Conv2D(4, 3, 2, "same"), layers.Flatten(),
                                         layers.Dense(3)]), x=(255 * IMAGES).astype("uint8"))


@construct
def sequences_with_a_mask(use):
    keras.utils.set_random_seed(0)
    sequences = SEQUENCES * (numpy.arange(5) < CHANCE_LENGTHS[:, None])[:, :, None]
    return fitted(use, keras.Sequential([layers.Input((5, 4)), layers.Masking(), layers.LSTM(6), layers.Dense(3)]), x=sequences.astype("float32"))


CHANCE_LENGTHS = CHANCE.randint(1, 6, 48)


@construct
def metric_of_ones_own(use):
    class Largest(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="largest")
            self.sum = self.add_weight(shape=(), initializer="zeros", name="sum")

        def update_state(self, y, prediction, sample_weight=None):
            self.sum.assign_add(ops.sum(ops.max(prediction, -1)))

        def result(self):
            return self.sum

    return fitted(use, metrics=[Largest(), lambda y, prediction: ops.max(prediction)], validation_split=0.25)


@construct
def batches_of_a_generator(use):
    def batches():
        while True:
            for first, end in ((0, 16), (16, 20), (20, 48)):
                yield X[first:end], Y[first:end], WEIGHTS[first:end]

    net = mlp()
    net.compile("adam", cross_entropy(), metrics=["accuracy"])
    use(net)
    return net, net.fit(batches(), epochs=2, steps_per_epoch=3, verbose=0).history


@construct
def saved_and_loaded(use):
    net, _ = fitted(use, optimizer=of.Adam(0.05))
    with tempfile.TemporaryDirectory() as folder:
        net.save(os.path.join(folder, "m.keras"))
        loaded = keras.models.load_model(os.path.join(folder, "m.keras"))
    use(loaded)
    return loaded, again(loaded)


@construct(refused="samples")
def loss_over_the_batch(use):
    return fitted(use, loss=lambda y, p: keras.losses.sparse_categorical_crossentropy(y, p - ops.mean(p, 0), from_logits=True))


@construct(refused="symbolic tensors")
def first_samples_without_gradient(use):
    class Placed(layers.Layer):
        def call(self, x):
            return ops.concatenate([ops.stop_gradient(x[:2]), x[2:]], 0)

    return fitted(use, mlp(Placed()))


@construct(refused="first batch")
def counter_in_a_layer(use):
    class Counting(layers.Layer):
        calls = 0

        def call(self, x):
            self.calls += 1
            return x * self.calls

    return fitted(use, mlp(Counting()))


def numbers(found):
    """All numbers of a nested structure, in order."""
    if isinstance(found, dict):
        found = [found[name] for name in sorted(found)]
    if isinstance(found, (list, tuple)):
        return numpy.concatenate([numbers(one) for one in found]) if found else numpy.zeros(0)
    return numpy.asarray(ops.convert_to_numpy(found), dtype=numpy.float64).ravel()
