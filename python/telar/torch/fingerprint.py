"""What a module, its parameters and its optimizer carry beside what they compute, and whether it is as it was.

A fingerprint is taken at a capture, and compared before each step. It has the layers and their modes, the hooks of layers,
parameters and optimizer, what requires a gradient, and the parameters of the optimizer's groups. (Values follow in
telar.torch.following.) Its parts differ in how a change is found:

- What is registered is caught when it happens. PyTorch numbers the handles of hooks of every kind, and tells of each layer,
  parameter and buffer that is set. Only if these counts have moved are the layers walked.
- Modes are a flag for each layer, and are compared each time; requires_grad where somebody has used a tensor since.
- Buffers that a capture has as constants, such as a mask, are compared by their versions each time, and by their contents where
  these have moved and now and then.
- Numbers that layers have as attributes, such as the rate of a dropout, are compared, too. Whether they matter is then seen
  in the operations.
"""

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as of_optimizers
from torch.utils.hooks import RemovableHandle

HOOKS_OF_LAYERS = {"_forward_pre_hooks": "forward pre-hook", "_forward_hooks": "forward hook",
                   "_backward_pre_hooks": "backward pre-hook", "_backward_hooks": "backward hook"}
HOOKS_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
HOOKS_OF_OPTIMIZERS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
HARMLESS = ("torch.", "telar.", "telar_verify.")  # modules whose hooks change no value: PyTorch's, ours, and the observer of weave --verify
WITHOUT_EFFECT = 4  # changes of a number


class Registrations:
    """Counts the layers, parameters and buffers that are set in modules, and does nothing else."""

    count = 0

    def __call__(self, module, name, value):
        self.count += 1


REGISTRATIONS = Registrations()
for register in (modules.register_module_module_registration_hook, modules.register_module_parameter_registration_hook,
                 modules.register_module_buffer_registration_hook):
    register(REGISTRATIONS)


class Fingerprint:
    """Of a module and its optimizer, as they are now. constants: the names of buffers whose values belong to it."""

    def __init__(self, model, optimizer, constants=()):
        self.constants = constants
        self._model, self._optimizer = model, optimizer
        self._layers = list(model.modules())
        self._parameters = list(model.parameters())
        self._carried = carried(model, optimizer)
        self._modes, self._gradients = self._modes_now(), self._gradients_now()
        self._places = [(vars(layer), name) for layer in self._layers for name, value in vars(layer).items() if is_a_number(layer, name, value)]
        self._ignored = {}  # numbers of layers that have changed without an effect: how often, by their place
        buffers = dict(model.named_buffers(remove_duplicate=False)) if constants else {}
        self._buffers = [buffers[name] for name in constants if name in buffers]
        self._versions, self._contents = self._versions_now(), self._contents_now()
        self.settle()

    @property
    def key(self):
        """The same for captures that are interchangeable."""
        return self._carried, tuple(self._modes), tuple(self._gradients), tuple(self._numbers), tuple(self._contents)

    @property
    def is_of_one_mode(self):
        """Whether all layers were in training mode, or the module was not: then they are put into it (begin_training)."""
        return all(self._modes) or not self._modes[0]

    def is_untouched(self, was_open, thoroughly):
        """Whether nothing that is found at once has changed, modes included: the short way for most steps.

        was_open: whether a tensor may have been used, and so its requires_grad changed. thoroughly: whether the contents of
        constants are compared, too, which `.data` and NumPy's views change without a new version.
        """
        return ([layer.training for layer in self._layers] == self._modes
                and (not was_open or self._gradients_now() == self._gradients)
                and RemovableHandle.next_id == self._counts[0] and REGISTRATIONS.count == self._counts[1]
                and len(self._optimizer.param_groups) == len(self._counts[2])
                and (not self._places or self._numbers_now() == self._numbers)
                and (not self._buffers or self._versions_now() == self._versions)
                and (not thoroughly or self._contents_now() == self._contents))

    def is_same(self, with_modes=True):
        """Whether all but the values is as it was, those of constants included. with_modes: whether the modes of layers matter."""
        if self._contents_now() != self._contents:
            return False
        self._versions = self._versions_now()
        if self._gradients_now() != self._gradients or (with_modes and self._modes_now() != self._modes):
            return False
        if self._counts_now() == self._counts:
            return True
        if carried(self._model, self._optimizer) != self._carried:
            return False
        self._counts = self._counts_now()
        return True

    def numbers_differ(self):
        """Whether a number that a layer has as an attribute is another one, such as the rate of a dropout."""
        return self._numbers_now() != self._numbers

    def ignore_numbers(self):
        """The numbers that differ had no effect on the operations; one of which that is known is not compared any more."""
        for place, before, now in zip(list(self._places), self._numbers, self._numbers_now()):
            if before != now:
                key = id(place[0]), place[1]
                self._ignored[key] = self._ignored.get(key, 0) + 1
                if self._ignored[key] == WITHOUT_EFFECT:
                    self._places.remove(place)
        self._numbers = self._numbers_now()

    def settle(self):
        """Takes the counts of registrations, and the numbers of layers, as they are."""
        self._counts = self._counts_now()
        self._numbers = self._numbers_now()

    def _modes_now(self):
        return [layer.training for layer in self._layers]

    def _numbers_now(self):
        return [attributes.get(name) for attributes, name in self._places]

    def _versions_now(self):
        return [buffer._version for buffer in self._buffers]

    def _contents_now(self):
        return [hash(buffer.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()) for buffer in self._buffers]

    def _gradients_now(self):
        with torch._C.DisableTorchFunctionSubclass():
            return [parameter.requires_grad for parameter in self._parameters]

    def _counts_now(self):
        return RemovableHandle.next_id, REGISTRATIONS.count, [len(group["params"]) for group in self._optimizer.param_groups]


def is_a_number(layer, name, value):
    """Whether an attribute is a number that may follow the training. Whole ones of PyTorch's own layers are extents."""
    if name == "training" or name.startswith("_"):
        return False
    return isinstance(value, float) or (isinstance(value, (bool, int, str)) and not type(layer).__module__.startswith("torch."))


def carried(model, optimizer):
    """The layers, tensors, hooks and groups, by their identities."""
    layers = [(name, id(layer), *hooks_of(layer, HOOKS_OF_LAYERS)) for name, layer in model.named_modules()]
    tensors = [(name, id(tensor), *hooks_of(tensor, HOOKS_OF_PARAMETERS))
               for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))]
    groups = [tuple(id(parameter) for parameter in group["params"]) for group in optimizer.param_groups]
    return tuple(layers), tuple(tensors), tuple(groups), *hooks_of(optimizer, HOOKS_OF_OPTIMIZERS), *map(tuple, global_hooks())


def hooks_of(owner, kinds):
    return [tuple(getattr(owner, kind, None) or ()) for kind in kinds]


def global_hooks():
    """Those of all modules and of all optimizers."""
    return (modules._global_forward_pre_hooks, modules._global_forward_hooks, modules._global_backward_pre_hooks,
            modules._global_backward_hooks, of_optimizers._global_optimizer_pre_hooks, of_optimizers._global_optimizer_post_hooks)


def hook_of_a_layer(model):
    """In words, a hook of a layer that is not harmless: it may do what no graph has. None if there is none."""
    for name, layer in model.named_modules():
        for attribute, kind in HOOKS_OF_LAYERS.items():
            for hook in getattr(layer, attribute).values():
                if not is_harmless(hook):
                    return f"the {kind} {named(hook)} of " + (f"layer '{name}'" if name else "the module")
    for hooks, kind in zip(global_hooks(), HOOKS_OF_LAYERS.values()):
        for hook in hooks.values():
            if not is_harmless(hook):
                return f"the {kind} {named(hook)} of all modules"
    return None


def hook_of_an_update(parameters, optimizer):
    """In words, a hook that sees a gradient or an update: of a parameter, by its name, or of the optimizer. None if there is none."""
    for name, parameter in parameters.items():
        if any(hooks_of(parameter, HOOKS_OF_PARAMETERS)):
            return f"the parameter '{name}' has a hook"
    if any(hooks_of(optimizer, HOOKS_OF_OPTIMIZERS)) or any(not is_harmless(hook) for hooks in global_hooks()[4:] for hook in hooks.values()):
        return "the optimizer has a hook of its steps"
    return None


def is_harmless(hook):
    return (getattr(hook, "__module__", None) or "").startswith(HARMLESS)


def named(hook):
    return getattr(hook, "__name__", type(hook).__name__)
