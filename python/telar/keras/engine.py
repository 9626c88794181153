"""A model of Keras whose steps Telar makes."""

import functools
import inspect
import math
import warnings

import keras
import numpy
from keras import tree

from telar import _native
from telar.keras import optimizers
from telar.keras.callbacks import with_exchange
from telar.keras.capture import Capture, labels_of, losses_of, metrics_of, outputs_structure, require_own_step, weights_by_output
from telar.keras.check import called, require_equal, require_unchanged, without_gradient
from telar.keras.state import State
from telar.keras.values import Refusal, numbers
from telar.refusal import checked_options, devices_of, not_finite

BACKENDS = ("tensorflow", "torch")
MOST_FORMS = 16  # of batches


def use(model, /, *, strategy="single", threads=0, device="cpu", precision="f32", seed=0, check=True, **options):
    """From now on, Telar makes the steps of the model's fit, evaluate and predict. Returns the model.

        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        telar.keras.use(model, strategy="mirrored", replicas=2)
        model.fit(x, y, batch_size=64, epochs=5, validation_split=0.1)

    The layers are read at the first batch, whose loss, gradients and predictions are compared with Keras's. What Telar
    cannot train as it is raises telar.Error with the reason.

    strategy: a name of telar.strategies() without servers; its options follow as keywords, `replicas=2`.
    threads: of all workers on CPUs together; 0: those that this process may use.
    device: "cpu", "cuda" or "cuda:1", where Telar computes, as in a job, or a list with one name for each worker.
    precision: "f32", or "bf16" for products and convolutions.
    check: whether the first batch is compared with Keras.
    """
    if not isinstance(model, keras.Model):
        raise Refusal(f"telar.keras takes models of Keras, not {type(model).__name__}")
    if keras.backend.backend() not in BACKENDS:
        raise Refusal(f"the backend of Keras is {keras.backend.backend()}; telar.keras works beside {' and '.join(BACKENDS)}")
    require_own_step(model)
    release(model)
    options = checked_options(strategy, precision, options)
    Engine(model, strategy, options, threads, devices_of(device), precision == "bf16", seed, check).install()
    return model


def release(model):
    """Gives the steps back to Keras."""
    engine = engine_of(model)
    if engine is not None:
        engine.uninstall()


def save(model, path):
    """Writes the model with its values of now to a file: `telar train`, `telar.load`.

    The model must be compiled, with a loss; it need not be in use.
    """
    if not getattr(model, "compiled", False):
        raise Refusal("the model is not compiled; a file has a loss, too")
    engine = engine_of(model)
    if engine is not None:
        engine.give()
    x, y = engine.example if engine is not None else (None, None)
    captured = Capture(model, x, y, metrics=metrics_of(model), is_file=True).captured()
    captured.model.write(str(path), {})


def engine_of(model):
    return getattr(model, "_telar", None)


class Engine:
    """Makes the steps of one model. Its functions take the places of those that Keras compiles."""

    REPLACED = ("fit", "evaluate", "predict", "make_train_function", "make_test_function", "make_predict_function")

    def __init__(self, model, strategy, options, threads, devices, bf16, seed, check):
        self.model, self.strategy, self.options = model, strategy, options
        self.threads, self.devices, self.bf16, self.seed, self.check = threads, devices, bf16, seed, check
        self.captured = self.session = self.state = None
        self.example = None, None  # inputs and labels of a batch
        self._key = self._python = self._forms = self._losses = None
        self._parked = {}  # what belongs to batches of other extents
        self._samples = 0
        # TensorFlow reads Python's part of model and optimizer when it traces a step: by the shapes of a batch for which it would have.
        self._traces, self._trace = {}, None
        self._last = None  # the last batch of training, and its arrays
        self._is_fitting = False
        self._may_have_changed = True

    def install(self):
        model = self.model
        for name in self.REPLACED:
            setattr(model, name, functools.partial(getattr(self, name), getattr(type(model), name)))
        model._telar = self

    def uninstall(self):
        self.give()
        for name in (*self.REPLACED, "_telar"):
            delattr(self.model, name)
        for name in ("train_function", "test_function", "predict_function"):
            setattr(self.model, name, None)

    # In place of the model's own:

    def fit(self, own, *arguments, **keywords):
        given = self._with_exchange(own, arguments, keywords)
        if isinstance(given["callbacks"], keras.callbacks.CallbackList):
            raise Refusal("fit() has a CallbackList; give its callbacks as a list")
        self._is_fitting = True
        try:
            return own(self.model, **given)
        finally:
            self._is_fitting = False
            self.give()

    def evaluate(self, own, *arguments, **keywords):
        return own(self.model, **self._with_exchange(own, arguments, keywords))

    def predict(self, own, *arguments, **keywords):
        return own(self.model, **self._with_exchange(own, arguments, keywords))

    def _with_exchange(self, own, arguments, keywords):
        """The arguments of a call of Keras's, by their names. A CallbackList is that of the fit() that evaluates."""
        bound = inspect.signature(own).bind(self.model, *arguments, **keywords)
        given = {name: value for name, value in bound.arguments.items() if name not in ("self", "kwargs")} | bound.arguments.get("kwargs", {})
        if not isinstance(given.get("callbacks"), keras.callbacks.CallbackList):
            given["callbacks"] = with_exchange(self, given.get("callbacks"))
        return given

    def make_train_function(self, own, force=False):
        self._may_have_changed = True
        if force or self.model.train_function is None:
            self._traces.clear()
        self.model.train_function = self._train

    def make_test_function(self, own, force=False):
        self._may_have_changed = True
        self.model.test_function = self._evaluate

    def make_predict_function(self, own, force=False):
        """Before the first batch of labels nothing is known of the loss, and Keras predicts."""
        self._may_have_changed = True
        if self.session is None:
            self.model.predict_function = None
            own(self.model, force)
        else:
            self.model.predict_function = self._predict

    def give(self):
        """Writes the values to Keras, and takes what is changed there at the next step."""
        if self.state is not None:
            self.state.to_keras()
        self._may_have_changed = True

    def require_unchanged(self):
        """Raises Refusal if Keras computes another loss of the last batch by the same values. With TensorFlow it cannot: it reads Python once."""
        if self.check and self._last is not None and keras.backend.backend() == "torch":
            batch = self._last
            arrays = self.captured.arrays(*self._begin(batch))  # by the session of its shapes, with the numbers of now
            found = self.session.evaluate(arrays)[0] / (len(next(iter(arrays.values()))) if self.captured.mean else 1)
            require_unchanged(self.model, batch, found, self.bf16)
            self._may_have_changed = True

    # Steps

    def _train(self, data):
        """Makes the steps of one call of Keras's train function; returns the metrics until now."""
        for batch in batches(data, self.model.steps_per_execution):
            if keras.backend.backend() == "tensorflow":
                self._choose_trace(shapes_of(data, batch))
            given = self._begin(batch)
            if keras.backend.backend() == "tensorflow":
                self._traces[self._trace] = self._python
            arrays = self.captured.arrays(*given, training=True)
            size = len(next(iter(arrays.values())))
            self._update_others_before(arrays, batch)
            rate = 0.0 if self.state.by_keras else optimizers.learning_rate_at(self.model.optimizer, self.state.step)
            ids = numpy.arange(self._samples, self._samples + size)
            self.state.step += 1
            sums, finite = self.session.train(arrays, ids, rate, self.state.step, 0, 0 if self.captured.mean else 1)
            self.state.is_ahead = True
            self._samples += size
            if not finite:
                step, loss = self.state.step, sums[0] / size
                if math.isfinite(loss):
                    self._take_all()
                raise not_finite(step, loss, "those of the model's variables")
            if self.state.by_keras:
                self.state.update_by_keras(size if self.captured.mean else 1)
            self._track(sums, arrays)
            self._last = batch
        if not self._is_fitting:
            self.give()  # train_on_batch: the next line of the program may read the variables
        return self.model.get_metrics_result()

    def _choose_trace(self, shapes):
        """Takes TensorFlow's trace for a batch: the narrowest one that has its shapes, else a new one for all shapes until now."""
        traces = [one for one in self._traces if includes(one, shapes)]
        if traces:
            chosen = functools.reduce(lambda one, other: other if includes(one, other) else one, traces)
        else:
            chosen = functools.reduce(joined, self._traces, shapes)
        self._may_have_changed |= chosen != self._trace
        self._trace = chosen

    def _evaluate(self, data):
        for batch in batches(data, self.model.steps_per_execution):
            given = self._begin(batch)
            arrays = self.captured.arrays(*given)
            self._track(self.session.evaluate(arrays), arrays)
            if self.others:
                self._update_others(arrays, batch)
        return self.model.get_metrics_result()

    def _predict(self, data):
        found = []
        for batch in batches(data, self.model.steps_per_execution):
            x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
            found.append(self._predicted(inputs_of(self.model, x)))
        parts = self.captured.apart(numpy.concatenate(found) if len(found) > 1 else found[0])
        parts = [keras.ops.convert_to_tensor(part) for part in parts]
        return parts[0] if len(parts) == 1 else tree.pack_sequence_as(outputs_structure(self.model), parts)

    def _predicted(self, x):
        """The predictions of a batch; for extents that no batch of labels has had, by Keras."""
        forms = forms_of(x)
        if forms == self._forms[:len(forms)]:
            self._take()
            return self.session.predict(self.captured.arrays(x))
        self.give()
        with without_gradient():
            given = tree.map_structure(keras.ops.convert_to_tensor, x)
            found = [numbers(one) for one in tree.flatten(called(self.model, given, training=False))]
        return found[0] if len(found) == 1 else numpy.concatenate([one.reshape(len(one), -1) for one in found], axis=1)

    # Metrics

    @property
    def others(self):
        """The metrics that Keras computes of predictions, each with its output."""
        return [(output, m) for output, m in metrics_of(self.model) if not any(m is tracked for tracked, _ in self.captured.tracked)]

    def _track(self, sums, arrays):
        """Adds the graphs' sums to Keras's metrics, which are means."""
        size = len(next(iter(arrays.values())))
        loss = sums[0] if self.captured.mean else sums[0] * size
        metrics = [self.model._loss_tracker, *(metric for metric, _ in self.captured.tracked)]
        for metric, total, count in zip(metrics, [loss, *sums[1:]], [size, *self.captured.counts(arrays)]):
            metric.total.assign_add(total)
            metric.count.assign_add(count)

    def _update_others_before(self, arrays, batch):
        """In training, Keras's metrics are of the predictions of the step itself."""
        if not self.others:
            return
        if not self.captured.alike:
            names = ", ".join(metric.name for _, metric in self.others)
            raise Refusal(f"the metrics {names} are of the predictions in training, which Telar has as sums only, and the model "
                          "has layers that compute something else in training; leave them out of compile(), and compute them "
                          "by model.predict(), or in a callback")
        self._update_others(arrays, batch)

    def _update_others(self, arrays, batch):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        labels = labels_of(self.model, y)
        predicted = self.captured.apart(self.session.predict(self.captured.of_model(arrays)))
        predicted = [keras.ops.convert_to_tensor(one) for one in predicted]
        for output, mask in self.captured.masks_of(tree.flatten(inputs_of(self.model, x))).items():
            keras.src.backend.set_keras_mask(predicted[output], keras.ops.convert_to_tensor(mask))
        for output, metric in self.others:
            metric.update_state(labels[output], predicted[output])

    # The session

    def _begin(self, batch):
        """The batch as arrays, for a session that trains the model as it is now."""
        model = self.model
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        x, y, weight = inputs_of(model, x), as_arrays(y), as_arrays(weight)
        if y is None:
            raise Refusal("the batch has no labels; Telar trains models with a loss of (labels, prediction)")
        y = labels_of(model, y)
        weighted = weight is not None or (self._key is not None and self._key[-1])
        forms = forms_of((x, y))
        if self._key is not None and not self._may_have_changed and weighted == self._key[-1] and forms == self._forms:
            return x, y, weights_by_output(self._losses, weight)
        traced = self._traces.get(self._trace)
        if traced is None:
            require_own_step(model)
        model._symbolic_build(data_batch=batch)
        python = traced or self._python_of_model()
        key = (id(model.optimizer), id(model._compile_loss), id(model._compile_metrics), python, weighted)
        if key != self._key and not self._traces:
            self._parked.clear()
        if key != self._key or forms != self._forms:
            self.give()
            if (key, forms) in self._parked:
                self.captured, self.session, self.state, self._losses = self._parked[key, forms]
                self._take_all()
            elif python != self._python_of_model():
                raise Refusal("`trainable`, a number of a layer or an option of the optimizer was changed after TensorFlow had traced the "
                              "step, which does not see it for this batch; call compile() after such a change")
            elif len(self._parked) == MOST_FORMS:
                raise Refusal(f"the batches have had {MOST_FORMS} shapes, and this is another one; pad sequences to fewer lengths")
            else:
                self._losses = losses_of(model)
                self._make_session(batch, (x, y, weights_by_output(self._losses, weight)), weighted)
                self._parked[key, forms] = self.captured, self.session, self.state, self._losses
            self._key, self._python, self._forms = key, python, forms
        self._take()
        return x, y, weights_by_output(self._losses, weight)

    def _python_of_model(self):
        """What a session keeps of Python: what is trained, the numbers, and the optimizer's options in words, or why Keras's own updates."""
        model, optimizer = self.model, self.model.optimizer
        options = optimizers.reason_for_keras(optimizer, model.trainable_variables) or repr(optimizers.options_of(optimizer))
        return tuple(id(v) for v in model.trainable_variables), options, numbers_of(model)

    def _make_session(self, batch, arrays, weighted):
        model, optimizer = self.model, self.model.optimizer
        if model._compile_metrics is not None and weighted and any(model._compile_metrics._flat_weighted_metrics):
            raise Refusal("weighted_metrics with weights of samples are not in Telar's graphs; leave them out of compile()")
        reason = optimizers.reason_for_keras(optimizer, model.trainable_variables)
        if reason is not None:
            if _native.trains_alone(self.strategy, self.options):
                raise Refusal(f"{reason}; and Keras has one optimizer, but each replica of {self.strategy} needs its own")
            warnings.warn(f"Keras's own optimizer makes the updates, of Telar's gradients: {reason}", stacklevel=2)
        of_rows = next((layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Embedding) and layer.trainable), None)
        if keras.backend.backend() == "tensorflow" and of_rows is not None and not optimizers.is_plain(optimizer):
            warnings.warn(f"{type(optimizer).__name__} changes all rows of layer '{of_rows.name}' at each step, as with PyTorch; Keras with "
                          "TensorFlow changes only those that the batch has", stacklevel=2)
        x, y, _ = arrays
        self.example = x, y
        capture = Capture(model, x, y, weighted, metrics_of(model), bf16=self.bf16)
        captured = capture.captured()
        size = len(tree.flatten(x)[0])
        if self.check:
            checked = capture.captured(check=True)
            require_equal(model, checked, keras.utils.unpack_x_y_sample_weight(batch), checked.arrays(*arrays, training=True), self.threads)
        name, options, clip_norm = "sgd", {}, 0.0
        if reason is None:
            name, options = optimizers.form_of(optimizer).name, optimizers.options_of(optimizer)
            clip_norm = float(optimizer.global_clipnorm or 0.0)
        by_keras = list(model.trainable_variables) if reason is not None else []
        session = _native.Session(captured.model, size, name, options, self.strategy, self.options, clip_norm, self.bf16, self.threads,
                                  self.seed, devices=self.devices)
        self.captured, self.session, self.state = captured, session, State(captured, session, optimizer, by_keras)
        self._may_have_changed = True

    def _take(self):
        if self._may_have_changed:
            self.state.to_telar()
            self._may_have_changed = False

    def _take_all(self):
        """Takes the values of Keras's variables in place of those of the session."""
        self.state.written.clear()
        self.state.is_ahead = False
        self.state.to_telar()


def numbers_of(model):
    """The numbers that layers, regularizers and losses have as attributes."""
    owners = [*model._flatten_layers(), *(one.regularizer for one in model.variables if getattr(one, "regularizer", None) is not None),
              *(one for one in tree.flatten(model.loss) if isinstance(one, keras.losses.Loss))]
    return tuple(value for one in owners for name, value in vars(one).items()
                 if isinstance(value, (bool, int, float)) and name not in ("training", "built") and not name.startswith("_"))


def inputs_of(model, x):
    """The arrays of a model's inputs. Those that are given by the names of a list of inputs are in its order, as Keras takes them."""
    x, structure = as_arrays(x), getattr(model, "_inputs_struct", None)
    if not isinstance(x, dict) or structure is None or isinstance(structure, dict):
        return x
    return [x[one.name] for one in model.inputs]


def as_arrays(tensors):
    return tree.map_structure(lambda leaf: None if leaf is None else numbers(leaf), tensors)


def forms_of(arrays):
    """The shapes of a batch's samples."""
    return tuple(numpy.shape(array)[1:] for array in tree.flatten(arrays))


def shapes_of(data, batch):
    """The shapes by which TensorFlow traces a step: with None for an axis that a data set leaves open."""
    spec = getattr(data, "element_spec", None)
    return tuple(tuple(numpy.shape(leaf) if spec is None else leaf.shape) for leaf in tree.flatten(batch if spec is None else spec))


def includes(trace, shapes):
    """Whether a trace may be used for a batch of these shapes."""
    return len(trace) == len(shapes) and all(len(a) == len(b) and all(x in (None, y) for x, y in zip(a, b)) for a, b in zip(trace, shapes))


def joined(shapes, others):
    """The narrowest trace for both; the first one if they have other ranks."""
    if [len(one) for one in shapes] != [len(one) for one in others]:
        return shapes
    return tuple(tuple(x if x == y else None for x, y in zip(a, b)) for a, b in zip(shapes, others))


def batches(data, most):
    """The batches of one call of a function of Keras: those of an iterator, or of a list. At least one, or StopIteration."""
    iterator = iter(data)
    found = [next(iterator)]
    while len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
    return found
