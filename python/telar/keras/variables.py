"""The variables of a model of Keras as parameters of Telar."""

import dataclasses

from telar.keras.values import Layout, Refusal, as_held, numbers
from telar.parameters import Parameters


@dataclasses.dataclass(frozen=True)
class Held:
    """A variable and how Telar holds it."""

    name: str
    variable: object
    layout: Layout

    def values(self):
        """What the variable has now, as Telar holds it."""
        return self.layout.to_telar(numbers(self.variable))

    def assign(self, values):
        self.variable.assign(self.layout.to_keras(values, self.variable.shape))


class Variables:
    """The variables that a model's graphs use. trained: those that the optimizer changes."""

    def __init__(self, trained):
        self.trained = {id(variable) for variable in trained}
        self.parameters = Parameters()
        self.all = {}  # by name
        self._of = {}  # id of a variable -> Held

    def held(self, variable, layout, low):
        """The variable in this layout."""
        known = self._of.get(id(variable))
        if known is None:
            if variable.dtype != "float32":
                raise low.refusal(f"has a variable of {variable.dtype}; Telar trains float32")
            known = Held(self._name(variable), variable, layout)
            self._of[id(variable)] = self.all[known.name] = known
            role = "trained" if id(variable) in self.trained else "fixed"
            self.parameters.add(known.name, role, known.values())
        if known.layout != layout:
            raise low.refusal(f"uses the variable '{variable.path}' of another layer, which holds it in another form")
        return known

    def statistic(self, variable, momentum, low):
        """A variable that moves towards a statistic of each batch by this part."""
        held = self.held(variable, as_held(variable.shape), low)
        _, _, values = self.parameters.entries[held.name]
        self.parameters.entries[held.name] = ("statistic", momentum, values)
        return held

    def of(self, variable):
        """How a variable is held, or None if no graph uses it."""
        return self._of.get(id(variable))

    def constant(self, array):
        return self.parameters.constant(array)

    def require_all(self, variables):
        """Raises Refusal unless the graphs use all of these."""
        for variable in variables:
            if id(variable) not in self._of:
                raise Refusal(f"the variable '{variable.path}' is read outside of the layers' graph, or not at all: a custom "
                              "layer may use its variables in calls of layers and of keras.ops with a tensor only")

    def _name(self, variable):
        name = base = variable.path.replace("/", ".")
        number = 2
        while name in self.all:
            name, number = f"{base}.{number}", number + 1
        return name
