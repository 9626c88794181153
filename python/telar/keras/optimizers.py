"""Keras's optimizers as Telar's: their options and their state."""

import dataclasses

import keras
import numpy

from telar.keras.values import Refusal, numbers

LEAST_CLIP = 1e-2  # Telar's limit of the norm has 1e-6 more in its divisor


@dataclasses.dataclass(frozen=True)
class OptimizerForm:
    """An optimizer of Telar, with the names of its options and of its state in Keras.

    slots: for each of Telar's, Keras's list of variables, and factor and offset of its values: telar = factor · keras +
    offset. refused: options of Keras's that must be unset.
    """

    name: str
    options: dict
    slots: dict
    refused: tuple = ()
    fixed: dict = dataclasses.field(default_factory=lambda: {"keras": True})


_SGD = OptimizerForm("sgd", {"momentum": "momentum", "nesterov": "nesterov"}, {"momentum": ("momentums", -1.0)})
_ADAM = OptimizerForm("adam", {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon", "weight_decay": "weight_decay"},
                      {"adam_m": ("_momentums", 1.0), "adam_v": ("_velocities", 1.0)}, ("amsgrad",))
_RMSPROP = OptimizerForm("rmsprop", {"alpha": "rho", "epsilon": "epsilon", "momentum": "momentum"},
                         {"rmsprop_s": ("_velocities", 1.0), "rmsprop_b": ("_momentums", 1.0)}, ("centered",))
# Keras's epsilon is in the root, beside the sum that never shrinks: Telar's sum begins with both.
_ADAGRAD = OptimizerForm("adagrad", {}, {"adagrad_s": ("_accumulators", 1.0)}, fixed={"epsilon": 0.0})
FORMS = {"SGD": _SGD, "Adam": _ADAM, "AdamW": _ADAM, "RMSprop": _RMSPROP, "Adagrad": _ADAGRAD}
REFUSED = ("use_ema", "clipnorm", "clipvalue", "gradient_accumulation_steps", "loss_scale_factor")
STEPS = ("apply_gradients", "apply", "backend_apply_gradients", "update_step", "stateless_apply", "_backend_update_step", "_clip_gradients",
         "_apply_weight_decay")


def form_of(optimizer):
    """The form of an optimizer. Raises Refusal for one that Telar does not have, or for such an option."""
    form = FORMS.get(type(optimizer).__name__)
    if form is None or not type(optimizer).__module__.startswith("keras.src."):
        raise Refusal(f"Telar has no optimizer {type(optimizer).__name__} of Keras; it has SGD, Adam, AdamW, RMSprop and Adagrad")
    own = next((name for name in STEPS if name in vars(optimizer)), None)
    if own is not None:
        raise Refusal(f"{type(optimizer).__name__} has a {own} of its own")
    for option in (*REFUSED, *form.refused):
        if getattr(optimizer, option, None):
            raise Refusal(f"{type(optimizer).__name__} has {option}={getattr(optimizer, option)}, which Telar does not have")
    if optimizer.weight_decay:
        if form is not _ADAM:
            raise Refusal(f"{type(optimizer).__name__} has a weight_decay, which Telar has in Keras's form for Adam and AdamW only")
        if getattr(optimizer, "_exclude_from_weight_decay", None) or getattr(optimizer, "_exclude_from_weight_decay_pattern", None):
            raise Refusal("the optimizer excludes variables from weight_decay; Telar has one value for all")
        return dataclasses.replace(form, name="adamw")
    if optimizer.global_clipnorm and optimizer.global_clipnorm < LEAST_CLIP:
        raise Refusal(f"global_clipnorm is {optimizer.global_clipnorm}; it must be at least {LEAST_CLIP}")
    return form


def is_plain(optimizer):
    """Whether a variable without a gradient stays as it is."""
    return type(optimizer) is keras.optimizers.SGD and not optimizer.momentum and not optimizer.weight_decay and not optimizer.use_ema


def reason_for_keras(optimizer, variables):
    """Why Keras's own optimizer must make the updates, or None if Telar's can. variables: that it changes."""
    try:
        form_of(optimizer)
    except Refusal as reason:
        return str(reason)
    return next((f"the variable '{one.path}' has a constraint" for one in variables if one.constraint is not None), None)


def options_of(optimizer):
    """The options of Telar's optimizer."""
    form = form_of(optimizer)

    def value(name):
        found = getattr(optimizer, name)
        return found if isinstance(found, bool) else float(found or 0.0)

    return {option: value(name) for option, name in form.options.items()} | form.fixed


def offset_of(optimizer):
    """What Telar's state has more than Keras's."""
    return float(optimizer.epsilon) if isinstance(optimizer, keras.optimizers.Adagrad) else 0.0


def learning_rate_at(optimizer, step):
    """The learning rate of the step after so many."""
    rate = optimizer._learning_rate
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(step)
    elif not isinstance(rate, keras.Variable) and callable(rate):
        rate = rate()
    return float(numbers(rate))


def slot_variable(optimizer, slot, variable):
    """Keras's variable of a slot of Telar's for a variable of the model."""
    name, _ = form_of(optimizer).slots[slot]
    return getattr(optimizer, name)[optimizer._get_variable_index(variable)]


def to_telar(optimizer, slot, values):
    return numpy.float32(form_of(optimizer).slots[slot][1]) * values + numpy.float32(offset_of(optimizer))


def to_keras(optimizer, slot, values):
    return (values - numpy.float32(offset_of(optimizer))) * numpy.float32(form_of(optimizer).slots[slot][1])
