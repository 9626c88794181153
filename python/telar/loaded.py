"""Models from files."""

import os

import numpy

from telar import _native


class LoadedModel:
    """A model of a file: predicts and evaluates without the framework in which it was written."""

    def __init__(self, path):
        self._model = _native.Model(os.fspath(path))
        self._session = _native.Session(self._model, 32, "sgd", {}, "single", {})

    @property
    def name(self):
        return self._model.name

    @property
    def metrics(self):
        """The names of what evaluate() returns."""
        return self._model.metrics

    @property
    def inputs(self):
        """(name, element type, shape of one sample) of each input, in the order of a batch."""
        order = self._model.inputs
        return sorted(self._session.inputs, key=lambda form: order.index(form[0]))

    @property
    def parameters(self):
        """The values of the parameters by name, as NumPy arrays."""
        return {name: self._session.read_state(name) for name, _, _ in self._model.parameters}

    def predict(self, *inputs, **named):
        """The predictions for a batch, [N, ...] float32: of one array, x, or of several by name."""
        return self._session.predict(self._arrays(inputs, named))

    def evaluate(self, *inputs, **named):
        """The mean of each metric over a batch, by name."""
        arrays = self._arrays(inputs, named)
        sums = self._session.evaluate(arrays)
        samples = len(next(iter(arrays.values())))
        return {metric: total / samples for metric, total in zip(self.metrics, sums)}

    def export(self, path):
        """Writes the model as an ONNX file: its inputs are those of predict(), by name, with any number of samples, and its
        output is "values", the predictions. Raises telar.Error, naming the layer, for an operation that ONNX has not."""
        self._model.write_onnx(os.fspath(path))

    def _arrays(self, inputs, named):
        forms = {name: dtype for name, dtype, _ in self.inputs}
        given = dict(zip(forms, inputs)) | named
        unknown = sorted(set(given) - set(forms))
        if unknown or len(inputs) > len(forms):
            raise _native.Error(f"the model has the inputs {', '.join(forms)}, not {', '.join(unknown) or 'so many'}")
        if "x" not in given:
            raise _native.Error(f"the input x is missing; the model has the inputs {', '.join(forms)}")
        return {name: as_input(values, forms[name], name) for name, values in given.items()}


def as_numbers(values, name):
    """The values as a NumPy array of numbers, without a copy where there is a way."""
    if numpy.ma.is_masked(values):
        raise _native.Error(f"the input '{name}' has masked values, which would be used; fill them, as numpy.ma.filled(x, 0) does")
    array = numpy.from_dlpack(values) if not isinstance(values, numpy.ndarray) and hasattr(values, "__dlpack__") \
        else numpy.asarray(values)
    if array.dtype.kind not in "biuf":
        raise _native.Error(f"the input '{name}' must be of numbers, not of {array.dtype}")
    return array


def as_input(values, dtype, name):
    """The values as a contiguous array of the type f32 or i32. Refuses numbers that change by that."""
    array = as_numbers(values, name)
    if dtype == "i32":
        if array.dtype.kind not in "biu":
            raise _native.Error(f"the input '{name}' is of integers, but the array has {array.dtype}")
        if array.dtype != numpy.int32 and array.size and (array.min() < -2**31 or array.max() >= 2**31):
            raise _native.Error(f"the input '{name}' has numbers beyond 32 bits")
    return numpy.ascontiguousarray(array, dtype=numpy.int32 if dtype == "i32" else numpy.float32)


def load(path):
    """Reads a model file, as telar.torch.Step.save() or a program in C++ writes it."""
    return LoadedModel(path)
