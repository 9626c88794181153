"""What forward may change beside parameters and the values of buffers: counters, caches, lists, tensors that a layer, a class or a function keeps."""

import collections
import contextlib
import dis
import functools
import operator
import random
import sys
import types

import numpy
import torch

from telar.torch.fingerprint import HOOKS_OF_PARAMETERS

OF_EVERY_LAYER = set(vars(torch.nn.Module()))
REGISTERED = {key for key, value in vars(torch.nn.Module()).items() if isinstance(value, dict)} - {"_modules", "_parameters"}  # buffers, hooks
CONTAINERS = (dict, list, set, collections.deque)
MOST_MEMBERS = 1000  # of a container that is looked into
MOST_NUMBERS = 1 << 20  # of a tensor whose values are kept
NO_OBJECTS = (types.ModuleType, types.BuiltinFunctionType, torch.Tensor)
OF_LIBRARIES = sys.stdlib_module_names | {"torch", "telar", "numpy"}
OF_CLASSES = (types.FunctionType, property, types.MemberDescriptorType, types.GetSetDescriptorType)
ABSENT = object()
SIMPLE = (int, float, complex, str, bytes, torch.device, torch.dtype)
CHANCE = {random.Random: ("getstate", "setstate"), torch.Generator: ("get_state", "set_state"), numpy.random.RandomState: ("get_state", "set_state")}


class Attributes:
    """What a module's layers have as plain attributes now, and what their functions and the loss have as globals and in closures.

    With what containers and objects of the user's among them have.
    """

    def __init__(self, module):
        self._containers = []  # (container, its name, its content, which keys count, whether it has buffers or hooks)
        self._cells = []  # (variable of a closure, its name, its value)
        self._tensors = []  # (tensor, its name, its version, its values)
        self._others = []  # (object, its name, its state, how it is read, how it is set): generators of numbers, arrays, slots
        seen, todo = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}, list(module.named_modules())
        while todo:
            name, one = todo.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, torch.nn.Module):
                self._note(vars(one), name, todo, lambda key: key not in OF_EVERY_LAYER)
                for key in REGISTERED & vars(one).keys():
                    self._note(vars(one)[key], name, todo, is_registered=True)
                todo += classes_of(one)
            elif isinstance(one, torch.Tensor):
                if not isinstance(one, torch.nn.Parameter) and not one.is_inference() and one.numel() <= MOST_NUMBERS:
                    self._tensors.append((one, name, one._version, one.detach().clone()))
            elif isinstance(one, CONTAINERS):
                self._note(one, name, todo)
            elif isinstance(one, tuple) and len(one) <= MOST_MEMBERS:
                todo += [(name, member) for member in one]
            elif isinstance(one, numpy.ndarray) and one.size <= MOST_NUMBERS and one.flags.writeable:
                self._others.append((one, name, one.copy(), numpy.copy, lambda array, values: array.__setitem__(..., values)))
            elif isinstance(one, numpy.random.Generator):
                self._others.append((one, name, one.bit_generator.state, lambda g: g.bit_generator.state,
                                     lambda g, state: setattr(g.bit_generator, "state", state)))
            elif isinstance(one, tuple(CHANCE)):
                read, give = next(names for kind, names in CHANCE.items() if isinstance(one, kind))
                self._others.append((one, name, getattr(one, read)(), operator.methodcaller(read), getattr(type(one), give)))
            elif isinstance(one, functools.partial):
                todo += [(name, one.func), (name, one.args), (name, one.keywords)]
            elif isinstance(one, types.MethodType):
                todo += [(name, one.__func__), (name, one.__self__)]
            elif isinstance(one, types.FunctionType):
                if not is_of_a_library(one) and "-packages/" not in one.__code__.co_filename:
                    self._note(one.__globals__, "", todo, globals_of(one.__code__).__contains__)
                    for module in map(one.__globals__.get, globals_of(one.__code__)):
                        self._note_module(module, todo, names_in(one.__code__), set())
                    self._note(vars(one), name, todo)
                    todo += [(name, one.__defaults__), (name, one.__kwdefaults__)]
                    for variable, cell in zip(one.__code__.co_freevars, one.__closure__ or ()):
                        self._cells.append((cell, variable, value_of(cell)))
                        todo.append((variable, value_of(cell)))
            elif isinstance(one, type):
                if not is_of_a_library(one):
                    self._note(OfObject(one), name, todo)
                    todo += [(name, function) for function in map(unwrapped, vars(one).values()) if isinstance(function, types.FunctionType)]
            elif not isinstance(one, NO_OBJECTS) and not is_of_a_library(type(one)):
                self._note(OfObject(one), name, todo)
                self._note(getattr(one, "__dict__", {}), name, todo)
                todo += classes_of(one)

    def restore(self):
        """Gives all of it the values and contents of then."""
        for container, _, content, counts, _ in self._containers:
            if changed_member(content, content_of(container, counts), True) is None:
                continue
            if isinstance(container, (dict, OfObject)):
                for key in content_of(container, counts).keys() - content.keys():
                    del container[key]
                container.update(content)
            else:
                container.clear()
                container.update(content.values()) if isinstance(container, set) else container.extend(content.values())
        for cell, _, value in self._cells:
            if value is not ABSENT:
                cell.cell_contents = value
        for one, _, state, read, give in self._others:
            if not is_same_state(read(one), state):
                give(one, state)
        with torch.no_grad():
            for tensor, _, version, values in self._tensors:
                if tensor._version != version:
                    tensor.copy_(values)

    def changed(self, with_tensors):
        """The name of what is another one now, or None. with_tensors: whether plain tensors count that were replaced."""
        for container, name, content, counts, is_registered in self._containers:
            member = changed_member(content, content_of(container, counts), with_tensors or is_registered)
            if member is not None:
                return f"{name}.{member}".removeprefix(".") if isinstance(container, (dict, OfObject)) else name
        name = next((name for cell, name, value in self._cells if is_changed(value, value_of(cell), with_tensors)), None)
        name = name or next((name for one, name, state, read, _ in self._others if not is_same_state(read(one), state)), None)
        return name or next((name for tensor, name, version, _ in self._tensors if tensor._version != version), None)

    def disturb(self):
        """Gives other values to the tensors that are not those of then, as a call may have kept them for the next one."""
        for container, _, content, counts, _ in self._containers:
            for key, now in content_of(container, counts).items():
                if not isinstance(container, set) and is_changed(content.get(key, ABSENT), now, True):
                    container[key] = disturbed(now)
        for cell, _, value in self._cells:
            if is_changed(value, value_of(cell), True):
                cell.cell_contents = disturbed(value_of(cell))

    def _note_module(self, module, todo, names, seen):
        """Notes what functions may name of a module of the user's, as `settings.calls`, and of the modules that it names."""
        if not isinstance(module, types.ModuleType) or module in seen or is_of_libraries(module.__name__) or "-packages/" in (getattr(module, "__file__", None) or ""):
            return
        seen.add(module)
        self._note(vars(module), module.__name__, todo, names.__contains__)
        for name in names & vars(module).keys():
            self._note_module(vars(module)[name], todo, names, seen)

    def _note(self, container, name, todo, counts=lambda key: True, is_registered=False):
        content = content_of(container, counts)
        self._containers.append((container, name, content, counts, is_registered))
        if len(content) <= MOST_MEMBERS:
            todo += [(f"{name}.{key}".removeprefix("."), member) for key, member in content.items()]


class OfObject:
    """Attributes that are in no dict that may be written: those of a class, and an object's slots."""

    def __init__(self, one):
        self.one = one

    def items(self):
        if isinstance(self.one, type):
            return [(name, value) for name, value in vars(self.one).items() if not name.startswith("__") and not isinstance(unwrapped(value), OF_CLASSES)]
        slots = [name for kind in type(self.one).__mro__ for name, value in vars(kind).items() if isinstance(value, types.MemberDescriptorType)]
        return [(name, getattr(self.one, name)) for name in slots if hasattr(self.one, name)]

    def __setitem__(self, name, value):  # past a __setattr__ of the user's, as of a frozen dataclass
        (type if isinstance(self.one, type) else object).__setattr__(self.one, name, value)

    def __delitem__(self, name):
        (type if isinstance(self.one, type) else object).__delattr__(self.one, name)

    def update(self, content):
        for name, value in content.items():
            self[name] = value


def classes_of(one):
    """The classes of the user's from which an object is made, each with its name."""
    return [(kind.__name__, kind) for kind in type(one).__mro__ if not is_of_a_library(kind)]


def disturbed(value):
    """Another value of the kind, for tensors and tuples of them."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(disturbed, value))
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point() or value.is_complex():
        others = torch.arange(1.0, value.numel() + 1, device=value.device).sin().reshape(value.shape)
        return others.to(value.dtype).requires_grad_(value.requires_grad)
    return ~value if value.dtype == torch.bool else value + 1


def is_same_state(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return one.tobytes() == other.tobytes() if isinstance(one, numpy.ndarray) else repr(one) == repr(other)


def unwrapped(member):
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member.fget if isinstance(member, property) else member


@functools.cache
def globals_of(code):
    """The globals that a function and those within it name, not the attributes."""
    own = {one.argval for one in dis.get_instructions(code) if one.opname.endswith("_GLOBAL")}
    return frozenset(own.union(*(globals_of(one) for one in code.co_consts if isinstance(one, types.CodeType))))


@functools.cache
def names_in(code):
    """All names that a function and those within it use of globals, modules and objects."""
    return frozenset(code.co_names).union(*(names_in(one) for one in code.co_consts if isinstance(one, types.CodeType)))


def is_of_a_library(one):
    return is_of_libraries(one.__module__ or "")


def is_of_libraries(module):
    return module.partition(".")[0] in OF_LIBRARIES


def value_of(cell):
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return ABSENT


def content_of(container, counts):
    """A copy of the members that count, by their keys or places."""
    if isinstance(container, (dict, OfObject)):
        return {key: value for key, value in container.items() if counts(key)}
    return dict(enumerate(container))


def changed_member(before, now, with_tensors):
    """The key of a member that is another one now, or None."""
    if before.keys() == now.keys() and all(map(operator.is_, before.values(), now.values())):
        return None
    return next((key for key in {**before, **now} if is_changed(before.get(key, ABSENT), now.get(key, ABSENT), with_tensors)), None)


def is_changed(before, now, with_tensors):
    if before is now or (isinstance(before, SIMPLE) and type(before) is type(now) and before == now):
        return False
    if isinstance(before, tuple) and type(before) is type(now) and len(before) == len(now):
        return any(is_changed(one, other, with_tensors) for one, other in zip(before, now))
    return with_tensors or not (isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor))


@contextlib.contextmanager
def untouched(module):
    """Afterwards parameters, their gradients, buffers, attributes, and the states of chance are as before. Hooks of parameters are not called."""
    gradients = {p: p.grad for p in module.parameters()}
    held = {tensor: tensor.detach().clone() for tensor in (*gradients, *module.buffers())}
    hooks = [(p, kind, getattr(p, kind)) for p in gradients for kind in HOOKS_OF_PARAMETERS if getattr(p, kind)]
    attributes, chance = Attributes(module), (torch.random.get_rng_state(), random.getstate(), numpy.random.get_state())
    for parameter in gradients:
        parameter.grad = None
    for parameter, kind, _ in hooks:
        setattr(parameter, kind, None)
    try:
        yield
    finally:
        for parameter, kind, registered in hooks:
            setattr(parameter, kind, registered)
        with torch.no_grad():
            for tensor, values in held.items():
                if not torch.equal(tensor, values):  # a batch norm raises no version
                    tensor.copy_(values)
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        for give, state in zip((torch.random.set_rng_state, random.setstate, numpy.random.set_state), chance):
            give(state)
        attributes.restore()  # last: what it calls is the user's
