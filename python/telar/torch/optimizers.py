"""PyTorch's optimizers as Telar's: their options and their state, and PyTorch's own ones over Telar's gradients."""

import dataclasses
import inspect

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from telar.torch.fingerprint import HOOKS_OF_PARAMETERS, hook_of_an_update
from telar.torch.values import Refusal


@dataclasses.dataclass(frozen=True)
class OptimizerForm:
    """An optimizer of Telar, with the names of its options and of its state in PyTorch.

    refused: options of PyTorch's that must have these values.
    """

    name: str
    options: dict
    slots: dict
    refused: dict


_SGD = OptimizerForm("sgd", {"momentum": "momentum", "weight_decay": "weight_decay", "nesterov": "nesterov"},
                     {"momentum": "momentum_buffer"}, {"dampening": 0, "maximize": False})
_ADAM = OptimizerForm("adam", {"beta1": ("betas", 0), "beta2": ("betas", 1), "epsilon": "eps",
                               "weight_decay": "weight_decay"},
                      {"adam_m": "exp_avg", "adam_v": "exp_avg_sq"}, {"amsgrad": False, "maximize": False})
_RMSPROP = OptimizerForm("rmsprop", {"alpha": "alpha", "epsilon": "eps", "momentum": "momentum",
                                     "weight_decay": "weight_decay"},
                         {"rmsprop_s": "square_avg", "rmsprop_b": "momentum_buffer"},
                         {"centered": False, "maximize": False})
_ADAGRAD = OptimizerForm("adagrad", {"lr_decay": "lr_decay", "epsilon": "eps", "weight_decay": "weight_decay"},
                         {"adagrad_s": "sum"}, {"initial_accumulator_value": 0, "maximize": False})


def form_of(optimizer):
    """The form of an optimizer. Raises Refusal for one that Telar does not have."""
    kind = type(optimizer)
    if kind is torch.optim.Adam:
        decoupled = any(group.get("decoupled_weight_decay") for group in optimizer.param_groups)
        return dataclasses.replace(_ADAM, name="adamw") if decoupled else _ADAM
    if kind is torch.optim.AdamW:
        return dataclasses.replace(_ADAM, name="adamw")
    forms = {torch.optim.SGD: _SGD, torch.optim.RMSprop: _RMSPROP, torch.optim.Adagrad: _ADAGRAD}
    if kind not in forms:
        raise Refusal(f"Telar has no optimizer {kind.__name__}; it has SGD, Adam, AdamW, RMSprop and Adagrad")
    return forms[kind]


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of an optimizer's parameters: their identities, Telar's options, and their initial learning rate."""

    members: frozenset
    options: dict
    learning_rate: float


def options_of(optimizer):
    """Telar's options for each group of an optimizer's parameters. Raises Refusal for options that Telar does not have."""
    form = form_of(optimizer)

    def value(group, place):
        held = group[place[0]][place[1]] if isinstance(place, tuple) else group[place]
        return bool(held) if isinstance(held, bool) else float(held)

    for group in optimizer.param_groups:
        for option, right in form.refused.items():
            if group.get(option, right) != right:
                raise Refusal(f"Telar's {form.name} has no {option}; it must be {right}")
    return [{option: value(group, place) for option, place in form.options.items()} for group in optimizer.param_groups]


def option_keys(optimizer):
    """The names of what PyTorch's groups have as options of Telar's, or as such that it must not have."""
    form = form_of(optimizer)
    return sorted({place[0] if isinstance(place, tuple) else place for place in form.options.values()} | set(form.refused))


def raw_options(optimizer, keys):
    """These options of the groups, and how many parameters each has: what is compared at each step."""
    return [[len(group["params"]), *[group.get(key) for key in keys]] for group in optimizer.param_groups]


def groups_of(optimizer):
    """The groups of an optimizer."""
    return [Group(frozenset(map(id, group["params"])), options, float(group.get("initial_lr", group["lr"])))
            for group, options in zip(optimizer.param_groups, options_of(optimizer))]


class Rates:
    """The learning rates of an optimizer's groups, as multiples of the greatest at the start.

    A scheduler that multiplies all rates by one number leaves these multiples as they are; others are refused.
    """

    def __init__(self, groups):
        self.base = max(range(len(groups)), key=lambda i: groups[i].learning_rate)
        most = groups[self.base].learning_rate
        self.multiples = [group.learning_rate / most if most > 0 else 1.0 for group in groups]

    def now(self, optimizer):
        """The learning rate of this step, of which each group has its multiple."""
        rate = float(optimizer.param_groups[self.base]["lr"])
        if len(self.multiples) > 1:
            for number, (group, multiple) in enumerate(zip(optimizer.param_groups, self.multiples)):
                if abs(group["lr"] - rate * multiple) > 1e-6 * abs(rate):
                    raise Refusal(f"the learning rate of group {number} is {group['lr']:.6g}, but {multiple:.6g} times that of group "
                                  f"{self.base}, {rate:.6g}, when it began; Telar can change the rates of groups only together, so "
                                  "use a schedule that multiplies all by one number")
        return rate


def reason_for_pytorch(optimizer, trained):
    """Why PyTorch's own optimizer must make the updates, or None if Telar's can. trained: the trained parameters by name."""
    try:
        form = form_of(optimizer)
        options_of(optimizer)
        steps_of(optimizer)
    except Refusal as reason:
        return str(reason)
    if form.name != "sgd" and len({bool(optimizer.state.get(parameter)) for parameter in trained.values()}) > 1:
        return "the optimizer has made steps for some of its parameters only"
    own = vars(optimizer).get("step")
    if own is not None and not hasattr(own, "_wrapped_by_lr_sched"):
        return f"the method step of the {type(optimizer).__name__} was replaced"
    return hook_of_an_update(trained, optimizer)


def steps_of(optimizer):
    """How many steps it has made."""
    counts = {int(state["step"]) for state in optimizer.state.values() if "step" in state}
    if len(counts) > 1:
        raise Refusal("the optimizer has made different numbers of steps for its parameters")
    if counts:
        return counts.pop()
    return 1 if any(state for state in optimizer.state.values()) else 0


def set_state(optimizer, tensor, slots, step):
    """Writes the optimizer's state of one parameter. slots: arrays by Telar's names; none if workers have their own."""
    form = form_of(optimizer)
    state = optimizer.state[tensor]
    for slot, values in slots.items():
        name = form.slots[slot]
        found = torch.from_numpy(values).reshape(tensor.shape).to(tensor.device)
        if isinstance(state.get(name), torch.Tensor):
            state[name].copy_(found)
        else:
            state[name] = found
    if slots and form.name != "sgd":
        state["step"] = torch.tensor(float(step)) if not isinstance(state.get("step"), torch.Tensor) else \
            state["step"].fill_(float(step))


class PyTorchsUpdate:
    """PyTorch's own optimizer updates the module's parameters, by gradients of the whole batch that Telar computes.

    What hangs on parameters and on the optimizer is called as by PyTorch: hooks of gradients, of their accumulation, and of steps.
    """

    def __init__(self, optimizer, clip_norm):
        self._optimizer, self._clip_norm = optimizer, clip_norm
        closure = inspect.signature(type(optimizer).step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise Refusal(f"Telar has no optimizer {type(optimizer).__name__}, which computes the loss several times in a step")

    @torch.no_grad()
    def make(self, gradients, begins, update):
        """gradients: pairs (parameter, its gradient), in the order in which backward finds them; others have none.

        begins: whether those that there are go first; update: whether the optimizer makes its step now, and they go then.
        """
        if begins:
            self._optimizer.zero_grad()
        for parameter, gradient in gradients:
            before, after = (getattr(parameter, kind) or {} for kind in HOOKS_OF_PARAMETERS)
            for hook in list(before.values()):
                changed = hook(gradient)
                gradient = gradient if changed is None else changed
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
            for hook in list(after.values()):
                hook(parameter)
        if not update:
            return
        if self._clip_norm:
            torch.nn.utils.clip_grad_norm_([parameter for parameter, _ in gradients], self._clip_norm)
        with torch.enable_grad():
            self._optimizer.step()
        self._optimizer.zero_grad()


def has_gradients(optimizer):
    """Whether a parameter has one."""
    with torch._C.DisableTorchFunctionSubclass():
        return any(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"])


def note_update(optimizer, is_made):
    """Notes whether the last update was made by a telar.torch.Step."""
    optimizer._telar_has_updated = is_made


def require_gradients(optimizer, given, named):
    """Raises Refusal where a loop calls step() of an optimizer whose update a Step has just made. A hook of all optimizers."""
    if getattr(optimizer, "_telar_has_updated", False) and len(given) == 1 and not named and not has_gradients(optimizer):
        raise Refusal("the optimizer's step was made by telar.torch.Step, which leaves no gradients, so what the loop does with these has "
                      "no effect, as clip_grad_norm_; call step(..., update=False) before such a loop's step of the optimizer, or "
                      "leave that out")


register_optimizer_step_pre_hook(require_gradients)
