#!/usr/bin/env python3
"""What Telar exports, executed by ONNX Runtime, against what Telar predicts.

    PYTHONPATH=build/release/python python tests/python/check_export.py build/release/telar [-k NAME]
"""

import calendar
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
import onnxruntime

import telar
from telar import _native

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "telar"
RANDOM = numpy.random.default_rng(7)


def executed(path, **arrays):
    """The result of ONNX Runtime, of a file that ONNX's own checker accepts."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, arrays)
    return result


def whole(path):
    with open(path, "rb") as file:
        return file.read()


class Case:
    """An operation between the input x and a prediction. `build(graph, x)` returns the value of the result; `parameters`:
    shapes by name, given to it as well."""

    def __init__(self, name, sample, build, parameters=None, dtype="f32", low=-2.0, high=2.0):
        self.name, self.sample, self.build, self.dtype, self.low, self.high = name, sample, build, dtype, low, high
        self.parameters = parameters or {}

    def graph(self, training):
        graph = _native.GraphBuilder()
        x = graph.input("x", self.dtype, [4, *self.sample])
        values = {name: graph.parameter(name, list(shape)) for name, shape in self.parameters.items()}
        graph.scope = "layer"
        y = self.build(graph, x, **values)
        graph.scope = ""
        (y,) = graph.add("mul", [y, graph.parameter("last", [1])])
        if not training:
            graph.output("prediction", y)
            return graph
        (loss,) = graph.add("reduce_sum", [y], {"axes": list(range(len(graph.shape(y)))), "keep_dims": False})
        graph.add("accumulate", [graph.metric("loss"), loss])
        return graph

    def model(self):
        values = {name: RANDOM.uniform(0.2, 1, shape).astype("f4") for name, shape in self.parameters.items()}
        values["last"] = numpy.ones(1, "f4")
        listed = [(name, "fixed" if name in ("mean", "variance") else "trained", 0.0, array) for name, array in values.items()]
        return _native.Model.of_graphs(self.name, self.graph(True), self.graph(True), self.graph(False), listed, ["loss"])

    def batch(self, samples):
        shape = (samples, *self.sample)
        if self.dtype == "i32":
            return RANDOM.integers(0, 5, shape).astype("i4")
        return RANDOM.uniform(self.low, self.high, shape).astype("f4")


def one(name, **attributes):
    return lambda graph, x, **values: graph.add(name, [x, *values.values()], attributes)[0]


def second(name, result, width, **attributes):
    """The given result, of `width` numbers."""
    return lambda graph, x, **values: graph.add(name, [x, *values.values()], attributes)[result]


def recurrent(name, with_bias=True, result=0):
    def build(graph, x, w, r, b=-1, c=-1):
        inputs = [x, w, r, b if with_bias else -1, c if with_bias else -1, -1, -1]
        return graph.add(name, inputs + ([-1] if name == "lstm" else []))[result]
    return build


def of_lengths(name, result):
    def build(graph, x, w, r, b, c):
        steps = graph.shape(x)[1]
        (sums,) = graph.add("reduce_sum", [x], {"axes": [1, 2], "keep_dims": False})
        (lengths,) = graph.add("to_indices", [graph.add("scale", [sums], {"factor": float(steps)})[0]])
        return graph.add(name, [x, w, r, b, c, lengths, -1] + ([-1] if name == "lstm" else []))[result]
    return build


def windows(kernel, stride=1, padding=0, **more):
    pair = lambda value: list(value) if isinstance(value, tuple) else [value, value]
    return {"kernel": pair(kernel), "stride": pair(stride), "padding": pair(padding), **more}


def convolution(stride, padding, dilation=1, groups=1):
    options = windows(1, stride, padding, dilation=[dilation, dilation], groups=groups)
    del options["kernel"]
    return options


def gathered(graph, x, axis):
    """By positions that follow from x itself: the three greatest, in the other order."""
    (places,) = graph.add("order", [x], {"axis": axis, "count": 3, "descending": False})
    return graph.add("gather", [x, places], {"axis": axis})[0]


def numbered(graph, x, axis):
    (places,) = graph.add("order", [x], {"axis": axis, "count": 2, "descending": True})
    return graph.add("to_numbers", [places])[0]


def products(transpose_a, transpose_b):
    return lambda graph, x, w: graph.add("matmul", [x, w], {"transpose_a": transpose_a, "transpose_b": transpose_b})[0]


def parts(graph, x):
    a, b, c = graph.add("split", [x], {"axis": 1, "sizes": [1, 3, 2]})
    return graph.add("concat", [c, a, b], {"axis": 1})[0]


def filled(graph, x, w):
    (same,) = graph.add("fill", [x], {"shape": [3], "value": 0.5})
    (more,) = graph.add("mul", [graph.add("constant", [], {"shape": [3], "value": 2.0})[0], w])
    return graph.add("add", [graph.add("add", [x, same])[0], more])[0]


CASES = [
    *(Case(name, (3, 5), one(name)) for name in (
        "relu", "gelu", "sigmoid", "tanh", "silu", "gelu_tanh", "softplus", "hardswish", "elu", "leaky_relu",
        "exp", "sin", "cos", "atan", "erf", "expm1", "floor", "round", "stop_gradient")),
    *(Case(name, (3, 5), one(name), low=0.1, high=4.0) for name in ("log", "log1p")),
    Case("hardswish_far", (7,), one("hardswish"), low=-9.0, high=9.0),
    Case("scale", (4,), one("scale", factor=-0.3)),
    Case("pow", (4,), one("pow", exponent=0.5), low=0.1, high=4.0),
    Case("clamp", (4,), one("clamp", least=-0.5, most=1.5)),
    Case("within", (4,), one("within", least=-0.5, most=1.5)),
    Case("add_broadcast", (3, 4), one("add"), {"w": (4,)}),
    Case("mul_broadcast", (3, 4), one("mul"), {"w": (3, 1)}),
    Case("softmax_last", (3, 4), one("softmax", axis=2)),
    Case("softmax_inner", (3, 4), one("softmax", axis=1)),
    Case("linear", (6,), one("linear"), {"w": (3, 6), "b": (3,)}),
    Case("linear_without_bias", (6,), lambda graph, x, w: graph.add("linear", [x, w, -1])[0], {"w": (3, 6)}),
    Case("matmul", (2, 5), lambda graph, x: graph.add("matmul", [x, x], {"transpose_a": False, "transpose_b": True})[0]),
    Case("matmul_transposed", (2, 5), lambda graph, x: graph.add("matmul", [x, x], {"transpose_a": True, "transpose_b": False})[0]),
    Case("conv2d", (2, 9, 7), one("conv2d", **convolution((2, 1), (1, 2))), {"w": (4, 2, 3, 3), "b": (4,)}),
    Case("conv2d_dilated_groups", (4, 9, 8), lambda graph, x, w: graph.add("conv2d", [x, w, -1], convolution(1, 2, 2, 2))[0],
         {"w": (6, 2, 3, 2)}),
    *(Case(f"conv_transpose2d_{more}", (4, 5, 6), lambda graph, x, w, more=more: graph.add(
        "conv2d_backward_data", [x, w],
        {**convolution(2, 1, 1, 2), "input_size": [2 * 4 - 2 + 2 + 1 + more, 2 * 5 - 2 + 1 + 1 + more]})[0],
           {"w": (4, 3, 3, 2)}) for more in (0, 1)),
    Case("max_pool", (2, 9, 8), one("max_pool", **windows((3, 2), (2, 3), (1, 0)))),
    Case("average_pool", (2, 9, 8), one("average_pool", **windows((3, 2), (2, 3), (1, 1)))),
    Case("batch_norm_images", (3, 4, 5), one("batch_norm_inference", epsilon=1e-3),
         {"gamma": (3,), "beta": (3,), "mean": (3,), "variance": (3,)}),
    Case("batch_norm_rows", (3,), one("batch_norm_inference", epsilon=1e-5),
         {"gamma": (3,), "beta": (3,), "mean": (3,), "variance": (3,)}),
    Case("layer_norm", (3, 6), one("layer_norm", epsilon=1e-5), {"gamma": (6,), "beta": (6,)}),
    Case("embedding", (7,), one("embedding"), {"table": (5, 3)}, dtype="i32"),
    Case("lstm", (6, 3), recurrent("lstm"), {"w": (16, 3), "r": (16, 4), "b": (16,), "c": (16,)}),
    Case("lstm_cell", (6, 3), recurrent("lstm", result=2), {"w": (16, 3), "r": (16, 4), "b": (16,), "c": (16,)}),
    Case("lstm_without_bias", (6, 3), recurrent("lstm", False, 1), {"w": (16, 3), "r": (16, 4)}),
    Case("lstm_lengths", (6, 3), of_lengths("lstm", 0), {"w": (16, 3), "r": (16, 4), "b": (16,), "c": (16,)}),
    Case("gru", (6, 3), recurrent("gru"), {"w": (12, 3), "r": (12, 4), "b": (12,), "c": (12,)}),
    Case("gru_last", (6, 3), recurrent("gru", result=1), {"w": (12, 3), "r": (12, 4), "b": (12,), "c": (12,)}),
    Case("gru_lengths", (6, 3), of_lengths("gru", 1), {"w": (12, 3), "r": (12, 4), "b": (12,), "c": (12,)}),
    Case("reduce_sum", (3, 4), one("reduce_sum", axes=[2], keep_dims=False)),
    Case("reduce_mean_kept", (3, 4), one("reduce_mean", axes=[1, 2], keep_dims=True)),
    Case("reduce_max", (3, 4), one("reduce_max", axes=[1], keep_dims=False)),
    Case("reshape", (3, 4), one("reshape", dims=[0, 2, -1])),
    Case("flatten", (3, 4), one("reshape", dims=[-1, 12])),
    Case("transpose", (3, 4), one("transpose", permutation=[0, 2, 1])),
    Case("split_concat", (6, 2), parts),
    Case("fill_constant", (3,), filled, {"w": (1,)}),
    Case("gather_order", (5, 3), lambda graph, x: gathered(graph, x, 1)),
    Case("gather_order_last", (2, 5), lambda graph, x: gathered(graph, x, 2)),
    Case("order", (5,), lambda graph, x: numbered(graph, x, 1)),
]


class Operations(unittest.TestCase):
    def test_each_gives_the_same(self):
        for case in CASES:
            with self.subTest(case.name), tempfile.TemporaryDirectory() as folder:
                model = case.model()
                session = _native.Session(model, 4, "sgd", {}, "single", {})
                path = os.path.join(folder, "m.onnx")
                model.write_onnx(path)
                for samples in (4, 1, 7):
                    x = case.batch(samples)
                    wanted = session.predict({"x": x})
                    given = executed(path, x=x)
                    self.assertEqual(given.shape, wanted.shape)
                    self.assertTrue(numpy.isfinite(wanted).all())
                    numpy.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-5)

    def test_bytes_are_those_of_the_model(self):
        case = next(case for case in CASES if case.name == "lstm")
        model = case.model()
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a.onnx", "b.onnx")]
            for path in paths:
                model.write_onnx(path)
            self.assertEqual(*map(whole, paths))

    def test_what_onnx_has_not_is_refused_with_its_layer(self):
        def scattered(graph, x):
            (places,) = graph.add("order", [x], {"axis": 1, "count": 3, "descending": False})
            return graph.add("scatter_add", [places, x], {"axis": 1, "extent": 3})[0]
        model = Case("scattered", (3,), scattered).model()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            with self.assertRaisesRegex(telar.Error, "layer: the operation 'scatter_add' cannot be written as ONNX"):
                model.write_onnx(path)
            self.assertEqual(os.listdir(folder), [])

    def test_small_numbers_keep_their_digits(self):
        for name in ("log1p", "expm1"):
            model = Case(name, (6,), one(name)).model()
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "m.onnx")
                model.write_onnx(path)
                x = numpy.array([[1e-6, -1e-6, 3e-5, -3e-5, 1e-3, 0.0]], "f4")
                numpy.testing.assert_allclose(executed(path, x=x), getattr(numpy, name)(x.astype("f8")), rtol=1e-5)

    def test_names_of_parameters_do_not_collide(self):
        names = {"v0": (6,), "v3": (6,), "values": (6,), "x": (6,), "x.parameter": (6,)}

        def build(graph, value, **parameters):
            for parameter in parameters.values():
                (value,) = graph.add("gelu", [graph.add("add", [value, parameter])[0]])
            return value
        case = Case("names", (6,), build, names)
        model = case.model()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            model.write_onnx(path)
            x = case.batch(3)
            wanted = _native.Session(model, 4, "sgd", {}, "single", {}).predict({"x": x})
            numpy.testing.assert_allclose(executed(path, x=x), wanted, rtol=2e-5, atol=2e-5)

    def test_a_model_file_is_exported_with_its_values(self):
        case = next(case for case in CASES if case.name == "conv2d")
        with tempfile.TemporaryDirectory() as folder:
            file, path = os.path.join(folder, "m.telar"), os.path.join(folder, "m.onnx")
            case.model().write(file)
            loaded = telar.load(file)
            loaded.export(path)
            x = case.batch(3)
            numpy.testing.assert_allclose(executed(path, x=x), loaded.predict(x), rtol=2e-5, atol=2e-5)


LAYERS = """
    - {name: stem, type: conv2d, channels: 8, kernel: 3, padding: 1}
    - {type: batch_norm}
    - {type: relu, name: r}
    - {type: dropout, rate: 0.2}
    - {type: basic_block, channels: 8, stride: 2}
    - {type: bottleneck_block, channels: 4, stride: 1}
    - {type: max_pool, kernel: 2}
    - {type: global_average_pool}
    - {type: flatten}
    - {type: layer_norm}
    - {type: linear, features: OUTPUTS}
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.old = os.getcwd()
        os.chdir(self.folder.name)
        self.addCleanup(os.chdir, self.old)

    def telar(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def trained(self, job):
        with open("job.yaml", "w") as file:
            file.write(job)
        self.telar("train", "job.yaml", "--set", "output.folder=run", "--quiet")

    def predicted(self, path):
        lines = self.telar("predict", "run", path, "--all", "--quiet").splitlines()
        columns = [i for i, name in enumerate(lines[0].split(",")) if name.startswith(("p(", "value"))]
        return numpy.array([[float(line.split(",")[i]) for i in columns] for line in lines[1:]])

    def test_images_with_normalisation_inside(self):
        images = RANDOM.integers(0, 256, (64, 3, 12, 10)).astype("u1")
        numpy.save("x.npy", images)
        numpy.save("y.npy", RANDOM.integers(0, 4, 64).astype("i4"))
        self.trained("name: pictures\nmodel: {layers: [" + LAYERS.strip().removeprefix("- ").replace("\n    - ", ", ")
                     .replace("OUTPUTS", "4") + "]}\n"
                     "data: {source: npy, path: x.npy, label_path: y.npy, classes: 4, validation: 0.2, test: 0.1}\n"
                     "training: {epochs: 2, batch: 16}\n")
        self.telar("export", "run", "m.onnx")
        self.telar("export", "run", "m.safetensors", "--quiet")
        given = executed("m.onnx", x=images.astype("f4"))
        numpy.testing.assert_allclose(given, self.predicted("x.npy"), rtol=1e-4, atol=1e-5)

    def test_a_table_with_texts_dates_and_large_numbers(self):
        with open("t.csv", "w") as file:
            file.write("city,when,seconds,label\n")
            for _ in range(200):
                file.write(f"{RANDOM.choice(['Lima', 'Quito'])},2024-0{RANDOM.integers(1, 9)}-11,"
                           f"{1.7e9 + RANDOM.integers(0, 900)},{RANDOM.choice(['no', 'yes'])}\n")
        self.trained("name: table\nmodel: {name: mlp, options: {hidden: [8]}}\n"
                     "data: {source: csv, path: t.csv, label: label, validation: 0.2}\ntraining: {epochs: 2, batch: 16}\n")
        self.telar("export", "run", "m.onnx")
        model = onnx.load("m.onnx")
        kept = {entry.key: json.loads(entry.value) for entry in model.metadata_props if entry.key != "telar.checkpoint"}
        self.assertEqual(kept["telar.classes"], ["no", "yes"])
        self.assertEqual(kept["telar.columns"], ["city", "when", "seconds"])
        self.assertEqual(model.graph.input[0].type.tensor_type.elem_type, onnx.TensorProto.DOUBLE)
        words = [f"city={word}" for word in json.loads(kept["telar.encoding"][0])["words"]]
        self.assertEqual(kept["telar.features"], [*words, "when", "when.year.sin", "when.year.cos", "when.week.sin",
                                                  "when.week.cos", "seconds"])
        rows = [line.split(",") for line in whole("t.csv").decode().splitlines()[1:]]
        x = numpy.array([[*(f"city={city}" == word for word in words), *self.of_date(when), float(seconds)]
                         for city, when, seconds, _ in rows])
        numpy.testing.assert_allclose(executed("m.onnx", x=x), self.predicted("t.csv"), rtol=1e-4, atol=1e-5)

    def of_date(self, text):
        """Days since 1970, and sine and cosine of the places in the year and in the week, which begins on Monday."""
        date = datetime.date.fromisoformat(text)
        year = (date - datetime.date(date.year, 1, 1)).days / (366 if calendar.isleap(date.year) else 365)
        turns = numpy.array([year, date.weekday() / 7]) * 2 * numpy.pi
        days = (date - datetime.date(1970, 1, 1)).days
        return [days, *numpy.stack([numpy.sin(turns), numpy.cos(turns)], axis=1).ravel()]

    def test_numbers_and_labels_of_zero_and_one(self):
        x = RANDOM.normal(3, 5, (80, 6)).astype("f4")
        y = numpy.stack([x[:, 0] > 3, x[:, 1] > 2], axis=1).astype("f4")
        numpy.save("x.npy", x)
        numpy.save("y.npy", y)
        for loss, name in (("mean_squared_error", "values"), ("binary_cross_entropy", "probabilities")):
            self.trained("name: numbers\nmodel: {name: mlp, options: {hidden: [8]}}\nloss: " + loss +
                         "\ndata: {source: npy, path: x.npy, label_path: y.npy, classes: 0, validation: 0.2}\n"
                         "training: {epochs: 2, batch: 16, precision: bf16}\n")
            self.telar("export", "run", "m.onnx")
            self.assertEqual(onnx.load("m.onnx").graph.output[0].name, name)
            numpy.testing.assert_allclose(executed("m.onnx", x=x), self.predicted("x.npy"), rtol=3e-2, atol=3e-2)
            subprocess.run(["rm", "-rf", "run"], check=True)

    def test_tokens(self):
        numpy.save("x.npy", RANDOM.integers(0, 9, (40, 6)).astype("i4"))
        numpy.save("y.npy", RANDOM.integers(0, 3, 40).astype("i4"))
        for cell in ("lstm", "gru"):
            self.trained("name: tokens\nmodel: {layers: [{type: embedding, vocabulary: 9, width: 4}, "
                         "{type: " + cell + ", hidden: 5, layers: 2, dropout: 0.1}, {type: linear, features: 3}]}\n"
                         "data: {source: npy, path: x.npy, label_path: y.npy, classes: 3, validation: 0.2}\n"
                         "training: {epochs: 1, batch: 8}\n")
            self.telar("export", "run", "m.onnx")
            given = executed("m.onnx", x=numpy.load("x.npy"))
            numpy.testing.assert_allclose(given, self.predicted("x.npy"), rtol=1e-4, atol=1e-5)
            subprocess.run(["rm", "-rf", "run"], check=True)

    def test_texts(self):
        """A probability for each token at each position: the loss that follows from them is that of telar evaluate."""
        text = RANDOM.choice(numpy.frombuffer("abc dé\n".encode(), "u1"), 600).tobytes()
        with open("text", "wb") as file:
            file.write(text)
        self.trained("name: text\nmodel: {name: gpt_small, options: {layers: 2, heads: 2, width: 8}}\n"
                     "data: {source: text, path: text, length: 9}\ntraining: {epochs: 3, batch: 8}\n")
        self.telar("export", "run", "m.onnx")
        samples = numpy.array([list(text[i:i + 10]) for i in range(0, len(text) - 9, 9)], "i4")
        given = executed("m.onnx", x=samples[:, :-1])
        self.assertEqual(given.shape, (len(samples), 9, 256))
        numpy.testing.assert_allclose(given.sum(2), 1, rtol=1e-5)
        loss = -numpy.log(numpy.take_along_axis(given, samples[:, 1:, None], 2)).mean()
        self.telar("evaluate", "run", "--data", "text", "--summary", "found.json")
        self.assertAlmostEqual(json.loads(whole("found.json"))["test_loss"], loss, delta=1e-5)

    def test_labelled_texts(self):
        """The file alone tells how a text becomes tokens."""
        draw = ["one", "two", "It's", "größer", "!", "seven", "rare"]
        texts = [" ".join(RANDOM.choice(draw, RANDOM.integers(0, 9))) for _ in range(80)]
        with open("t.txt", "w") as file:
            file.writelines(f"{RANDOM.choice(['no', 'yes'])}\t{text}\n" for text in texts)
        with open("new.txt", "w") as file:
            file.writelines(f"{text}\n" for text in [*texts, "unseen words, too", "x"])
        for tokens in ("words", "bytes"):
            self.trained("name: texts\nmodel: {name: text_classifier, options: {width: 8}}\n"
                         "data: {source: labelled_texts, form: lines, path: t.txt, length: 7, most_words: 5, "
                         f"tokens: {tokens}, validation: 0.2}}\ntraining: {{epochs: 2, batch: 16}}\n")
            self.telar("export", "run", "m.onnx")
            kept = {entry.key: entry.value for entry in onnx.load("m.onnx").metadata_props}
            self.assertEqual((kept["telar.tokens"], json.loads(kept["telar.classes"])), (tokens, ["no", "yes"]))
            if tokens == "words":
                numbers = {word: token for token, word in enumerate(json.loads(kept["telar.words"]))}
                self.assertEqual(len(numbers), 5)
            ids = []
            for line in whole("new.txt").decode().splitlines():
                words = re.findall(r"\w+(?:'\w+)*|[^\w\s]", line) if tokens == "words" else list(line.encode())
                found = [1 + (numbers.get(word, 0) if tokens == "words" else word) for word in words][:7]
                ids.append(found + [0] * (7 - len(found)))
            given = executed("m.onnx", x=numpy.array(ids, "i4"))
            numpy.testing.assert_allclose(given, self.predicted("new.txt"), rtol=1e-4, atol=1e-5)
            subprocess.run(["rm", "-rf", "run"], check=True)

    def test_what_cannot_be_is_refused(self):
        for arguments, sentence in ((["export", "nothing", "m.onnx"], "nothing"), (["export", "nothing"], "FILE")):
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(sentence, done.stderr)
        numpy.save("x.npy", RANDOM.normal(size=(20, 3)).astype("f4"))
        numpy.save("y.npy", RANDOM.integers(0, 2, 20).astype("i4"))
        self.trained("name: small\nmodel: mlp\ndata: {source: npy, path: x.npy, label_path: y.npy, classes: 2}\n"
                     "training: {epochs: 1}\n")
        (checkpoint,) = os.listdir("run/checkpoints")
        before = whole(f"run/checkpoints/{checkpoint}/model.safetensors")
        for name, sentence in (("m.pt", "must end with .onnx or .safetensors"), ("no/m.onnx", "no"),
                               (f"run/checkpoints/{checkpoint}/new.safetensors", "is in a checkpoint")):
            done = subprocess.run([PROGRAM, "export", "run", name], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertFalse(os.path.exists(name))
        self.assertEqual(whole(f"run/checkpoints/{checkpoint}/model.safetensors"), before)


if __name__ == "__main__":
    unittest.main()
