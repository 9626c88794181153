"""What passes between the variables of Keras and the state of a session."""

import keras
import numpy

from telar.keras import optimizers
from telar.keras.check import without_gradient
from telar.keras.values import Refusal, numbers


class State:
    """The variables of a model and its optimizer, beside those of a session that trains them.

    Between two exchanges the session has the newer values. `written` are those of the last one, by which changes that a
    callback makes are noticed.
    by_keras: the variables that Keras's own optimizer updates.
    """

    def __init__(self, captured, session, optimizer, by_keras):
        self.session, self.optimizer, self.held = session, optimizer, captured.variables
        self.by_keras = by_keras
        self.written = {}
        self.step = 0
        self.is_ahead = False  # the session has made steps that Keras does not have

    def places(self):
        """(parameter, slot, Keras's variable) of all that is exchanged."""
        for parameter, slot in self.session.state_names:
            held = self.held.get(parameter)
            if held is not None:
                variable = optimizers.slot_variable(self.optimizer, slot, held.variable) if slot else held.variable
                yield parameter, slot, variable

    def to_keras(self):
        """Writes values and the number of steps to Keras, if there are new ones."""
        if not self.is_ahead:
            return
        self.is_ahead = False
        for parameter, slot, variable in self.places():
            values = self.session.read_state(parameter, slot)
            if slot:
                values = optimizers.to_keras(self.optimizer, slot, values)
            values = self.held[parameter].layout.to_keras(values, variable.shape)
            variable.assign(values)
            self.written[parameter, slot] = values
        if not self.by_keras:
            self.optimizer.iterations.assign(self.step)

    def to_telar(self):
        """Takes what was changed in Keras since the last exchange."""
        step = int(numbers(self.optimizer.iterations))
        for parameter, slot, variable in self.places():
            values = numpy.array(numbers(variable))
            known = self.written.get((parameter, slot))
            if known is not None and numpy.array_equal(known, values):
                continue
            if self.is_ahead:
                raise Refusal(f"the variable '{variable.path}' was changed in the middle of an epoch, but not by a callback; "
                              "change variables in a callback, or between calls of fit")
            self.written[parameter, slot] = values
            values = self.held[parameter].layout.to_telar(values)
            self.session.write_state(parameter, slot, optimizers.to_telar(self.optimizer, slot, values) if slot else values)
        if not self.is_ahead:
            self.step = step

    def update_by_keras(self, divisor):
        """Keras's own optimizer makes its step, of the session's gradients; the session takes its values. divisor: of the gradients."""
        held = {id(one.variable): one for one in self.held.values()}
        scale = float(numbers(self.optimizer.scale_loss(keras.ops.ones(())))) / divisor  # which apply() takes away again
        gradients = []
        for variable in self.by_keras:
            one = held[id(variable)]
            gradient = one.layout.to_keras(self.session.read_gradient(one.name) * numpy.float32(scale), variable.shape)
            gradients.append(keras.ops.convert_to_tensor(gradient))
        with without_gradient():
            if keras.backend.backend() == "tensorflow":  # as Keras's own steps call it
                self.optimizer.apply_gradients(zip(gradients, self.by_keras))
            else:
                self.optimizer.apply(gradients, self.by_keras)
        for variable in self.by_keras:
            one = held[id(variable)]
            self.written[one.name, ""] = numpy.array(numbers(variable))
            self.session.write_state(one.name, "", one.values())
