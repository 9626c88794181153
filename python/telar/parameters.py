"""The parameters of a model while its graphs are built."""

import hashlib

import numpy


class Parameters:
    """The parameters of a model, over its three graphs."""

    def __init__(self):
        self.entries = {}  # name -> (role, momentum, values)

    def add(self, name, role, values, momentum=0.0):
        """role: trained, statistic or fixed. values: a float32 array of at least one axis."""
        self.entries.setdefault(name, (role, momentum, values))

    def constant(self, values):
        """The name of a fixed parameter with these values."""
        values = numpy.atleast_1d(numpy.array(values, dtype=numpy.float32, order="C"))
        name = "constant." + hashlib.sha256(values.tobytes() + repr(values.shape).encode()).hexdigest()[:16]
        self.add(name, "fixed", values)
        return name

    def has_statistics(self):
        return any(role == "statistic" for role, _, _ in self.entries.values())

    def described(self):
        """For Model.of_graphs."""
        return [(name, role, momentum, values) for name, (role, momentum, values) in self.entries.items()]
