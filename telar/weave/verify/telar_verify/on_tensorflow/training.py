"""Optimizers and weights: what each process computes in each step."""
import functools

import tensorflow as tf

from . import distribution, values


def rate_of(optimizer, factor):
    """The learning rate; of a schedule, its rate when `factor` times as many steps have been made."""
    rate = getattr(optimizer, "_learning_rate", None)
    if rate is None:
        rate = optimizer._get_hyper("learning_rate")
    if isinstance(rate, tf.keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(tf.cast(tf.convert_to_tensor(optimizer.iterations), tf.float32) * factor)
    elif callable(rate) and not tf.is_tensor(rate) and not hasattr(rate, "assign"):
        rate = rate()
    return float(values.value_of(rate))


class Steps:
    """Observes each call of an optimizer's apply_gradients(), in each replica."""

    def __init__(self, records, passes, settings):
        self.records, self.passes = records, passes
        self.optimizers = []  # in the order of their first step
        self.taken = []  # for each optimizer: the number of steps of each replica
        self.depth = [0] * len(records)
        self.seen = self.graphs = 0
        # Woven schedules count fewer steps, of larger batches.
        alone = records[0].replay is not None
        self.factor = settings["processes"] if alone and settings["global_batch"] == "grow" else 1

    def number(self, optimizer):
        for index, known in enumerate(self.optimizers):
            if known is optimizer:
                return index
        self.optimizers.append(optimizer)
        self.taken.append([0] * len(self.records))
        return len(self.optimizers) - 1

    def note_rates(self):
        """Notes the rates that schedules have set since the last steps; a script may print them."""
        if tf.executing_eagerly():
            self.records[0].rates.update(rate_of(one, self.factor) for one in self.optimizers)

    def watched(self, apply, of_pairs):
        @functools.wraps(apply)
        def observed(optimizer, *arguments, **options):
            if not tf.executing_eagerly():
                self.graphs += 1
                return apply(optimizer, *arguments, **options)
            rank = distribution.replica()
            if self.depth[rank]:
                return apply(optimizer, *arguments, **options)
            self.depth[rank] += 1
            try:
                return self.step(apply, of_pairs, rank, optimizer, arguments, options)
            finally:
                self.depth[rank] -= 1

        return observed

    def step(self, apply, of_pairs, rank, optimizer, arguments, options):
        """`of_pairs`: whether the first argument has pairs of gradients and variables; otherwise they are two."""
        self.seen += 1
        given = list(arguments)
        if of_pairs:
            name = "grads_and_vars"
            pairs = list(given[0] if given else options.pop(name))
            given[:1] = [pairs]
        else:
            pairs = list(zip(given[0], given[1] if len(given) > 1 else optimizer._trainable_variables))
        record, number = self.records[rank], self.number(optimizer)
        variables = [variable for _, variable in pairs]
        step = self.before(record, rank, optimizer, pairs)
        result = apply(optimizer, *given, **options)
        step.update(optimizer=number, step=self.taken[number][rank], kind=type(optimizer).__name__,
                    digests=[values.digest(values.value_of(one)) for one in variables],
                    names=[getattr(one, "path", one.name) for one in variables],
                    summed=bool(options.get("skip_gradients_aggregation") or
                                not options.get("experimental_aggregate_gradients", True)))
        self.taken[number][rank] += 1
        record.steps.append(step)
        record.rates.add(step["lr"][0])
        if record.replay is None:
            step["values"] = [values.value_of(one) for one in variables]
            return result
        theirs = record.replay[0]["steps"].get((number, step["step"]))
        if theirs is not None:  # from the same parameters, each step can be compared by itself
            self.take(variables, theirs["values"])
            if step["step"] == 0 and step["started"] != theirs["started"]:
                # What this step computed began with other parameters.
                step["gradients"] = None
                record.started_anew += 1
        return result

    def before(self, record, rank, optimizer, pairs):
        if rank == 0:
            self.passes.note_training()
        if "float16" in getattr(tf.keras.mixed_precision.global_policy(), "compute_dtype", ""):
            record.exclude("the model computes in half precision, whose rounding depends on the batch")
        one = self.passes.current
        share = one.shares[rank] if one is not None and one.active else None
        drawn = share.drawn[-1] if share is not None and share.drawn else []
        started = [values.value_of(variable) for _, variable in pairs]
        if hasattr(optimizer, "build") and not getattr(optimizer, "built", True):
            optimizer.build([variable for _, variable in pairs])
        return {
            "place": record.place(),
            "lr": [rate_of(optimizer, self.factor)],
            "gradients": [None if gradient is None else values.some_values(gradient) for gradient, _ in pairs],
            "started": [values.digest(value) for value in started],
            "drawn": sorted({library for library, _ in drawn}),
            "states": {library: "".join(values.digest(value) for name, value in drawn if name == library)
                       for library, _ in drawn},
            "pass": (one.loader, one.number) if one is not None else None,
            "closure": False,
            "created": None,
            "wrapped": [True] * len(pairs),
        }

    @staticmethod
    def take(variables, saved):
        for variable, value in zip(variables, saved):
            if tuple(variable.shape) == value.shape:
                variable.assign(value)


def watch_steps(records, passes, settings):
    steps = Steps(records, passes, settings)
    kinds = [tf.keras.optimizers.Optimizer]
    legacy = getattr(tf.keras.optimizers, "legacy", None)
    if hasattr(legacy, "Optimizer") and hasattr(legacy.Optimizer, "apply_gradients"):
        kinds.append(legacy.Optimizer)
    for kind in kinds:
        if hasattr(kind, "apply"):  # Keras 3
            kind.apply = steps.watched(kind.apply, False)
        else:
            kind.apply_gradients = steps.watched(kind.apply_gradients, True)
    return steps


def watch_weights(record):
    """The sequential program's layers begin with the woven program's weights, which it may have drawn from
    other random numbers."""
    layer = tf.keras.layers.Layer
    add = layer.add_weight
    record.weights = []

    def add_and_note(self, *arguments, **options):
        weight = add(self, *arguments, **options)
        with tf.init_scope():
            if tf.executing_eagerly():
                note(weight)
        return weight

    def note(weight):
        try:
            value = values.value_of(weight)
        except (AttributeError, TypeError, ValueError):  # of a layer that is only described, not built
            value = None
        if record.replay is not None:
            saved = record.replay[0]["weights"]
            at = len(record.weights)
            if value is not None and at < len(saved) and saved[at] is not None and saved[at].shape == value.shape:
                weight.assign(saved[at])
        record.weights.append(value)

    layer.add_weight = add_and_note
