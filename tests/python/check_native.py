#!/usr/bin/env python3
"""The package telar without any framework: graphs, sessions, files and predictions, against NumPy.

    PYTHONPATH=build/release/python python tests/python/check_native.py [-k NAME]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy

import telar
from telar import _native


def graph(loss, prediction=False):
    """y = x · Wᵀ + b, with the squared error as its loss, or with the output."""
    builder = _native.GraphBuilder()
    x = builder.input("x", "f32", [4, 3])
    (y,) = builder.add("linear", [x, builder.parameter("w", [2, 3]), builder.parameter("b", [2])])
    if prediction:
        builder.output("prediction", y)
        return builder
    label = builder.input("label", "f32", [4, 2])
    (total,) = builder.add(loss, [y, label])
    builder.add("accumulate", [builder.metric("loss"), total])
    return builder


def linear_model(w, b):
    training = graph("mean_squared_error")
    parameters = [("w", "trained", 0.0, w), ("b", "trained", 0.0, b)]
    return _native.Model.of_graphs("linear", training, graph("mean_squared_error"), graph("", prediction=True), parameters,
                                   ["loss"])


class Native(unittest.TestCase):
    def setUp(self):
        random = numpy.random.default_rng(1)
        self.w, self.b = random.normal(size=(2, 3)).astype("f4"), random.normal(size=2).astype("f4")
        self.x, self.y = random.normal(size=(5, 3)).astype("f4"), random.normal(size=(5, 2)).astype("f4")
        self.model = linear_model(self.w, self.b)

    def session(self, strategy="single", **options):
        return _native.Session(self.model, 4, "sgd", {}, strategy, options)

    def train(self, session, rate=0.1):
        return session.train({"x": self.x, "label": self.y}, numpy.arange(5), rate, 1)

    def test_step_is_that_of_numpy(self):
        for strategy, options in (("single", {}), ("mirrored", {"replicas": 2})):
            session = self.session(strategy, **options)
            (loss,), finite = self.train(session)
            error = self.x @ self.w.T + self.b - self.y
            self.assertTrue(finite)
            self.assertAlmostEqual(loss, float((error**2).mean(1).sum()), places=4)
            gradient = error.T @ self.x / 5
            numpy.testing.assert_allclose(session.read_gradient("w") / 5, gradient, rtol=1e-5, atol=1e-6)
            numpy.testing.assert_allclose(session.read_state("w"), self.w - 0.1 * gradient, rtol=1e-5, atol=1e-6)

    def test_file_has_what_was_trained(self):
        session = self.session()
        self.train(session)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.telar")
            self.model.write(path, {"w": session.read_state("w"), "b": session.read_state("b")})
            loaded = telar.load(path)
        right = self.x @ session.read_state("w").T + session.read_state("b")
        numpy.testing.assert_allclose(loaded.predict(self.x), right, rtol=1e-5, atol=1e-6)
        self.assertAlmostEqual(loaded.evaluate(self.x, self.y)["loss"], float(((right - self.y)**2).mean()), places=5)
        self.assertEqual(loaded.inputs, [("x", "f32", [3]), ("label", "f32", [2])])

    def test_what_a_file_cannot_take_is_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.telar")
            self.model.write(path)
            loaded = telar.load(path)
            with open(path, "rb") as file:
                whole = file.read()
            with open(path, "wb") as file:
                file.write(whole[:len(whole) // 2])
            with self.assertRaisesRegex(telar.Error, "truncated"):
                telar.load(path)
        for mistake, reason in ((lambda: loaded.evaluate(), "x is missing"), (lambda: loaded.predict("text"), "of numbers"),
                                (lambda: loaded.predict(y=self.x), "not y")):
            with self.assertRaisesRegex(telar.Error, reason):
                mistake()

    def test_mistakes_are_sentences(self):
        session = self.session()
        for mistake, reason in (
                (lambda: session.train({"x": self.x[:, :2], "label": self.y}, numpy.arange(5), 0.1, 1), "'x' must be f32"),
                (lambda: session.train({"x": self.x, "label": self.y[:4]}, numpy.arange(5), 0.1, 1), "5 and 4 samples"),
                (lambda: session.train({"x": self.x, "label": self.y}, numpy.arange(4), 0.1, 1), "4 sample ids"),
                (lambda: _native.Model("/nowhere/m.telar"), "m.telar"),
                (lambda: self.session("mirored"), "mirrored"),
                (lambda: self.session("mirrored", replicas=0), "replicas"),
                (lambda: self.session("downpour").train({"x": self.x, "label": self.y}, numpy.arange(5), 0.1, 1), "workers of their own"),
                (lambda: _native.Session(self.model, 4, "sgd", {"momentun": 1.0}, "single", {}), "momentum"),
                (lambda: graph("mean_sqared_error"), "no operation"),
                (lambda: session.write_state("w", "", numpy.zeros((3, 2), "f4")[:1]), "w")):
            with self.assertRaisesRegex(telar.Error, reason):
                mistake()

    def test_mean_over_samples_is_refused(self):
        training = _native.GraphBuilder()
        x = training.input("x", "f32", [4, 3])
        (y,) = training.add("linear", [x, training.parameter("w", [2, 3])])
        (mean,) = training.add("reduce_mean", [y], {"axes": [0, 1], "keep_dims": False})
        training.add("accumulate", [training.metric("loss"), mean])
        with self.assertRaisesRegex(telar.Error, "sum over the samples"):
            _native.Model.of_graphs("mean", training, training, training, [("w", "trained", 0.0, self.w)], ["loss"])

    def test_labels_are_checked_before_they_are_used(self):
        builders = []
        for prediction in (False, False, True):
            builder = _native.GraphBuilder()
            tokens = builder.input("x", "i32", [4, 2])
            first, second = builder.add("split", [tokens], {"axis": 1, "sizes": [1, 1]})
            parts = [builder.add("embedding", [part, builder.parameter(name, [size, 3])])[0]
                     for part, name, size in ((first, "a", 5), (second, "b", 9))]
            (joined,) = builder.add("concat", parts, {"axis": 2})
            (y,) = builder.add("reshape", [joined], {"dims": [-1, 6]})
            if prediction:
                builder.output("prediction", y)
            else:
                (total,) = builder.add("reduce_sum", [y], {"axes": [0, 1], "keep_dims": False})
                builder.add("accumulate", [builder.metric("loss"), total])
            builders.append(builder)
        parameters = [("a", "trained", 0.0, numpy.ones((5, 3), "f4")), ("b", "trained", 0.0, numpy.ones((9, 3), "f4"))]
        model = _native.Model.of_graphs("tokens", *builders, parameters, ["loss"])
        session = _native.Session(model, 4, "sgd", {}, "single", {})
        session.predict({"x": numpy.array([[4, 8]], "i4")})
        for tokens, limit in (([[5, 8]], 4), ([[4, 9]], 8), ([[0, 0], [-1, 0]], 4)):
            with self.assertRaisesRegex(telar.Error, f"knows 0 to {limit}"):
                session.predict({"x": numpy.array(tokens, "i4")})

    def test_values_that_would_change_are_refused(self):
        self.assertEqual(telar.loaded.as_input(numpy.array([1, 2]), "i32", "x").dtype, numpy.int32)
        with self.assertRaisesRegex(telar.Error, "32 bits"):
            telar.loaded.as_input(numpy.array([2**31]), "i32", "x")
        with self.assertRaisesRegex(telar.Error, "integers"):
            telar.loaded.as_input(numpy.array([1.5]), "i32", "x")
        with self.assertRaisesRegex(telar.Error, "masked"):
            telar.loaded.as_input(numpy.ma.masked_array([1.0, 2.0], [False, True]), "f32", "x")
        self.assertEqual(telar.loaded.as_input(numpy.ma.masked_array([1.0, 2.0]), "f32", "x").tolist(), [1, 2])

    def test_a_job_runs(self):
        text = "data: {source: synthetic, samples: 200, shape: [4], classes: 2}\nmodel: {name: mlp}\ntraining: {epochs: 1}\n"
        with tempfile.TemporaryDirectory() as folder:
            job = os.path.join(folder, "job.yaml")
            with open(job, "w", encoding="utf-8") as file:
                file.write(text)
            summary = telar.train(job, output=os.path.join(folder, "run"), **{"training.epochs": 2})
            self.assertEqual(summary["epochs"], 2)
            with self.assertRaisesRegex(telar.Error, "epoch"):
                telar.train(job, output=os.path.join(folder, "other"), **{"training.epochs": "many"})

    def trained(self, folder, y, classes):
        """The folder of a run on self.x, of which it also tests, with these labels."""
        for name, array in (("x", self.x), ("y", y)):
            numpy.save(os.path.join(folder, name + ".npy"), array)
        data = {"source": "npy", "path": f"{folder}/x.npy", "label_path": f"{folder}/y.npy", "test_path": f"{folder}/x.npy",
                "test_label_path": f"{folder}/y.npy", "classes": classes, "validation": 0}
        job, run = os.path.join(folder, "job.yaml"), os.path.join(folder, "run")
        with open(job, "w", encoding="utf-8") as file:
            json.dump({"model": "mlp", "data": data, "training": {"epochs": 1, "batch": 5}}, file)
        summary = telar.train(job, output=run)
        return run, summary

    def test_a_run_is_evaluated_and_predicts(self):
        with tempfile.TemporaryDirectory() as folder:
            run, summary = self.trained(folder, self.y, classes=0)
            means, predicted = telar.evaluate(run), telar.predict(run, self.x)
            self.assertEqual((predicted.shape, predicted.dtype, predicted.classes), ((5, 2), numpy.float32, None))
            self.assertAlmostEqual(means["test_loss"], float(((predicted - self.y)**2).mean()), places=6)
            self.assertEqual((means["test_loss"], means["samples"]), (summary["test_loss"], 5))
            numpy.testing.assert_allclose(telar.predict(run, self.x[3:4]), predicted[3:4], rtol=1e-5)
            numpy.testing.assert_array_equal(telar.predict(run, numpy.asfortranarray(self.x)), predicted)
            for mistake, reason in ((lambda: telar.predict(run, self.x[:, :2]), r"samples are \[2\]; the model takes \[3\]"),
                                    (lambda: telar.predict(run, ["a"]), "of numbers"),
                                    (lambda: telar.predict(run + "-2", self.x), "run-2"),
                                    (lambda: telar.evaluate(run, **{"data.test_path": "/nowhere.npy"}), "nowhere")):
                with self.assertRaisesRegex(telar.Error, reason):
                    mistake()

    def test_a_run_with_classes_predicts_their_probabilities(self):
        y = numpy.array([0, 1, 2, 1, 0])
        with tempfile.TemporaryDirectory() as folder:
            run, _ = self.trained(folder, y, classes=3)
            means, predicted = telar.evaluate(run), telar.predict(run, self.x)
        self.assertEqual((predicted.shape, predicted.classes), ((5, 3), ["0", "1", "2"]))
        self.assertEqual(predicted.likeliest(), [str(column) for column in predicted.argmax(1)])
        with self.assertRaisesRegex(telar.Error, "no names of classes"):
            predicted[:, 1:].likeliest()  # of other columns
        numpy.testing.assert_allclose(predicted.sum(1), 1, rtol=1e-6)
        self.assertAlmostEqual(means["test_accuracy"], float((predicted.argmax(1) == y).mean()), places=6)
        self.assertAlmostEqual(means["test_loss"], -float(numpy.log(predicted[numpy.arange(5), y]).mean()), places=5)

    def test_columns_of_a_table_are_found_by_name(self):
        class Frame:
            """As pandas and polars have them: an array with names of columns."""

            def __init__(self, **columns):
                self.columns = list(columns)
                self.values = numpy.array(list(columns.values())).T

            def __array__(self, dtype=None, copy=None):
                return self.values if dtype is None else self.values.astype(dtype)

        times = 1_700_000_000 + numpy.arange(40.0)
        prices = numpy.arange(40) % 7 / 10
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "t.csv"), "w", encoding="utf-8") as file:
                file.write("time;price;kind\n" + "".join(f"{float(t)!r};{float(p)!r};{i % 2}\n" for i, (t, p) in enumerate(zip(times, prices))))
            data = {"source": "csv", "path": f"{folder}/t.csv", "separator": "semicolon", "classes": 2}
            job, run = os.path.join(folder, "job.yaml"), os.path.join(folder, "run")
            with open(job, "w", encoding="utf-8") as file:
                json.dump({"model": "mlp", "data": data, "training": {"epochs": 1, "batch": 5}}, file)
            telar.train(job, output=run)
            right = telar.predict(run, numpy.stack([times, prices], 1))
            self.assertGreater(abs(right[0] - right[-1]).max(), 1e-4, "seconds have been told apart")
            numpy.testing.assert_array_equal(telar.predict(run, Frame(time=times, price=prices)), right)
            numpy.testing.assert_array_equal(telar.predict(run, Frame(kind=prices, price=prices, id=times, time=times)), right)
            with self.assertRaisesRegex(telar.Error, "there is no column 'price'; the table has 'time' and 'cost'"):
                telar.predict(run, Frame(time=times, cost=prices))
            numpy.testing.assert_array_equal(telar.predict(run, numpy.asfortranarray(numpy.stack([times, prices], 1))), right)

    def test_what_lives_until_the_end_is_not_told(self):
        script = "import ctypes; from telar import _native; graph = _native.GraphBuilder(); ctypes.pythonapi.Py_IncRef(ctypes.py_object(graph))"
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_machine_without_openmp_is_told_the_package(self):
        program = """
import sys

class Loader:
    def find_spec(self, name, path=None, target=None):
        if name == "telar._native":
            raise ImportError(sys.argv[1] + ": cannot open shared object file: No such file or directory")

sys.meta_path.insert(0, Loader())
import telar
"""
        for library, told in (("libgomp.so.1", "libgomp1"), ("libother.so.1", "libother.so.1: cannot open")):
            found = subprocess.run([sys.executable, "-c", program, library], capture_output=True, text=True, check=False)
            self.assertNotEqual(found.returncode, 0)
            self.assertRegex(found.stderr.splitlines()[-1], f"^ImportError: .*{told}")

    def test_strategies_are_those_of_the_command_line(self):
        self.assertIn("downpour", telar.strategies())
        self.assertIn("replicas", _native.strategy_options("mirrored"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
