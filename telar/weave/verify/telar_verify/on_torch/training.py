"""Optimizers, backward passes and models: what each process computes in each step."""
import functools
import gc
import hashlib

import torch
from torch.optim import Optimizer

from . import noise
from ..record import End

STEPS_WITHOUT_LOADER = 100  # times --steps, in a program without a loader
MOST_BYTES = 512 << 20  # of recorded parameters, in such a program
MOST_VALUES = 1 << 16  # of a gradient, that are kept for the comparison; of a larger one, evenly spread ones


def digest(tensor):
    return hashlib.blake2b(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
                           if tensor.numel() else b"", digest_size=8).hexdigest()


def some_values(tensor):
    values = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    values = values.float().cpu().flatten()
    return values[::max(1, values.numel() // MOST_VALUES)].numpy().copy()


def names_of(parameters):
    """A readable name for each parameter: the class of its outermost module, and its name within that."""
    names = {}
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.nn.Module) or "DataParallel" in type(thing).__name__:
            continue
        for name, parameter in thing.named_parameters():
            full = type(thing).__name__ + "." + name
            if full.count(".") > names.get(id(parameter), "").count("."):
                names[id(parameter)] = full
    return [names.get(id(one), "a parameter of shape %s" % (tuple(one.shape),)) for one in parameters]


class Steps:
    """Observes each call of an optimizer's step(). Nested calls are one step: the innermost has the gradients
    with which the parameters are changed."""

    def __init__(self, record, draws):
        self.record, self.draws = record, draws
        self.optimizers = []  # in the order of their first step
        self.taken = []  # the number of steps of each
        self.bytes = 0  # of the recorded parameters
        self.open = {}  # by optimizer: the depth of the call
        self.created = []
        replayed = record.replay[0]["steps"].values() if record.replay else ()
        self.first_steps = {one["created"]: one for one in replayed if one["step"] == 0}

    def number(self, optimizer):
        for index, known in enumerate(self.optimizers):
            if known is optimizer:
                return index
        self.optimizers.append(optimizer)
        self.taken.append(0)
        return len(self.optimizers) - 1

    @staticmethod
    def rates(optimizer):
        return [float(group["lr"]) if "lr" in group else None for group in optimizer.param_groups]

    def note_rates(self):
        """Notes the rates that schedules have set since the last steps; a script may print them."""
        for optimizer in self.optimizers:
            self.record.rates.update(one for one in self.rates(optimizer) if one is not None)

    @staticmethod
    def parameters(optimizer):
        return [one for group in optimizer.param_groups for one in group["params"]]

    def gradients(self, optimizer):
        return [None if one.grad is None else some_values(one.grad) for one in self.parameters(optimizer)]

    def wrap(self, kind):
        """Observes step() of a class of optimizers and of its bases."""
        for base in kind.__mro__:
            step = base.__dict__.get("step")
            if base is Optimizer or step is None or hasattr(step, "telar_watches"):
                continue
            base.step = self.watched(step)

    def watched(self, step):
        @functools.wraps(step)
        def observed(optimizer, *arguments, **options):
            depth = self.open.get(id(optimizer), 0)
            self.open[id(optimizer)] = depth + 1
            self.pending = self.before(optimizer)
            if self.record.replay is None and not any(one is optimizer for one in self.optimizers):
                self.pending["started_values"] = self.values(optimizer)
            try:
                result = step(optimizer, *arguments, **options)
            finally:
                self.open[id(optimizer)] = depth
            if depth == 0:
                closure = bool(arguments and arguments[0] is not None) or options.get("closure") is not None
                self.after(optimizer, self.pending, closure)
            return result

        observed.telar_watches = True
        return observed

    def before(self, optimizer):
        record = self.record
        last = getattr(record, "last_yield", None)
        drawn, known = [], True
        if last is not None and last[1].active:
            drawn = noise.changed(last[0], noise.states())
            known = self.draws.are_complete()
        if [one for one in drawn if one != "torch"] or ("torch" in drawn and not known):
            record.exclude("the training step draws random numbers of %s" % " and ".join(drawn))
        return {
            "place": record.place(),
            "lr": self.rates(optimizer),
            "gradients": self.gradients(optimizer),
            "created": getattr(optimizer, "telar_created", None),
            "started": [digest(one) for one in self.parameters(optimizer)],
            "started_values": None,
            "drawn": drawn,
            "states": last[0] if last else {},
            "pass": (last[1].loader, last[1].number) if last else None,
        }

    def after(self, optimizer, step, closure, values=None):
        """`values`: of the parameters, where the optimizer's tensors do not have them yet."""
        record = self.record
        number = self.number(optimizer)
        parameters = self.parameters(optimizer)
        self.note_rates()
        step.update(optimizer=number, step=self.taken[number], closure=closure, kind=type(optimizer).__name__,
                    digests=[digest(one) for one in values or parameters],
                    names=names_of(parameters) if self.taken[number] == 0 else None,
                    wrapped=[id(one) in record.wrapped for one in parameters])
        if closure:
            step["gradients"] = None
        self.taken[number] += 1
        record.steps.append(step)
        if record.replay is None or closure or record.keeps_values:
            step["values"] = values or self.values(optimizer)
        if record.replay is None:
            return self.cut_without_loader(step["values"])
        theirs = record.replay[0]["steps"].get((number, step["step"]))
        if theirs is not None:  # from the same parameters, each step can be compared by itself
            self.take(optimizer, theirs["values"])
        if record.replay[0]["cut"] == len(record.steps):
            raise End

    def cut_without_loader(self, values):
        """Ends a program that has no loader, whose passes would be cut, after so many steps or bytes."""
        record = self.record
        self.bytes += sum(one.numel() * one.element_size() for one in values)
        if any(one.trained for one in record.passes):
            return
        if len(record.steps) >= STEPS_WITHOUT_LOADER * record.steps_of_a_pass or self.bytes > MOST_BYTES:
            record.cut = len(record.steps)
            raise End

    def values(self, optimizer):
        return [one.detach().cpu().clone() for one in self.parameters(optimizer)]

    def take(self, optimizer, values):
        with torch.no_grad():
            for mine, value in zip(self.parameters(optimizer), values):
                if mine.shape == value.shape:
                    mine.copy_(value)

    def begin(self, one):
        """Before the first batch of a pass of the sequential program: optimizers that make their first step in
        it begin with the woven program's parameters. Models that are created after a training have other random
        weights, because the ranks have drawn other numbers by then."""
        for optimizer in self.created:
            first = self.first_steps.get(optimizer.telar_created)
            if first is None or first["pass"] != (one.loader, one.number):
                continue
            if [digest(mine) for mine in self.parameters(optimizer)] != first["started"]:
                self.record.started_anew += 1
                self.take(optimizer, first["started_values"])


def watch_steps(record, draws):
    steps = Steps(record, draws)
    create = Optimizer.__init__

    def init_optimizer(self, *arguments, **options):
        steps.wrap(type(self))
        create(self, *arguments, **options)
        self.telar_created = len(steps.created)
        steps.created.append(self)

    Optimizer.__init__ = init_optimizer
    record.before_pass = steps.begin
    return steps


def watch_backward(record):
    """A pass whose batch a backward pass follows is a training pass."""
    backward = torch.autograd.backward

    def observed(*arguments, **options):
        for one in record.trained_now():
            one.trained, one.fresh = True, False
        return backward(*arguments, **options)

    torch.autograd.backward = observed

    def before_forward(module, inputs):
        record.forwards[torch.is_grad_enabled()] += 1

    torch.nn.modules.module.register_module_forward_pre_hook(before_forward)


def watch_clipping(record):
    """Whether clipping changed gradients: then those of a step are no longer a mean."""
    module = torch.nn.utils
    by_norm, by_value = module.clip_grad_norm_, module.clip_grad_value_

    def clip_norm(parameters, max_norm, *arguments, **options):
        norm = by_norm(parameters, max_norm, *arguments, **options)
        record.clipped = record.clipped or float(norm) > float(max_norm)
        return norm

    def clip_value(*arguments, **options):
        record.clipped = True
        return by_value(*arguments, **options)

    for one in (module, module.clip_grad):
        one.clip_grad_norm_, one.clip_grad_value_ = clip_norm, clip_value


def watch_wrappers(record):
    """Records which parameters DistributedDataParallel has, and calls of a wrapped model that bypass it."""
    wrapper = torch.nn.parallel.DistributedDataParallel
    create, forward = wrapper.__init__, wrapper.forward
    inside, modules, groups = [], set(), []

    def init_wrapper(self, module, *arguments, **options):
        create(self, module, *arguments, **options)
        record.wrapped.update(id(one) for one in module.parameters())
        modules.add(module)
        # A wrapper that ends with its group holds Python's lock while it waits for threads of gloo, and these may
        # wait for the lock to drop a tensor. So a group outlives its wrappers.
        groups.append(self.process_group)

    def before_forward(module, inputs):
        if module in modules and torch.is_grad_enabled() and module.training and not inside:
            record.bypassed.append(record.place())

    torch.nn.modules.module.register_module_forward_pre_hook(before_forward)

    def forward_inside(self, *arguments, **options):
        inside.append(self)
        try:
            return forward(self, *arguments, **options)
        finally:
            inside.pop()

    wrapper.__init__, wrapper.forward = init_wrapper, forward_inside


def without_compilation(record):
    """A compiled model would be compiled again in each process; its gradients are those of the model."""
    def as_it_is(model=None, **options):
        record.neutral.add("torch.compile")
        return model if model is not None else lambda one: one

    if hasattr(torch, "compile"):
        torch.compile = as_it_is
