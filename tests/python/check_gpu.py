#!/usr/bin/env python3
"""telar.torch and telar.keras on a GPU, beside PyTorch and Keras: the losses of some steps, and the values after them.

    TELAR_MODULES=FOLDER KERAS_BACKEND=torch python tests/python/check_gpu.py [--lines] [-k NAME]

FOLDER has telar-cuda.so, that of a GPU or one of the stand-ins (tests/cuda). It needs PyTorch, and Keras for its part. Modules and
batches are also in the GPU's memory, where PyTorch has one. PYTHONPATH must have the package telar.
--lines: an object of JSON for each comparison, and for each test that is begun, for the folder of scripts/gpu-folder.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import numpy
    import torch
    from torch import nn
    from torch.nn import functional as F
except ModuleNotFoundError:
    print("check_gpu: SKIPPED, there is no PyTorch; scripts/install-peers installs it")
    sys.exit(77)

import telar
import telar.torch as tt

warnings.filterwarnings("ignore")
CACHE = tempfile.TemporaryDirectory()  # of the algorithms that a GPU has chosen
os.environ["XDG_CACHE_HOME"] = CACHE.name
LINES = "--lines" in sys.argv
torch.backends.cudnn.allow_tf32 = False  # PyTorch's convolutions on a GPU round to TF32 by default
PLACES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)), (12,)),
    "convnet": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                      nn.Linear(128, 5)), (3, 8, 8)),
}
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, 1e-3),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, 1e-3),  # PyTorch's own makes the updates
}
STRATEGIES = {
    "single": {},
    "mirrored": {"replicas": 2},
}


def batches_of(shape, sizes=(6, 4, 5, 6), place="cpu"):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(n, *shape, generator=generator).to(place), torch.randint(0, 5, (n,), generator=generator).to(place))
            for n in sizes]


def made(name, place="cpu"):
    torch.manual_seed(0)
    build, shape = MODULES[name]
    return build().to(place), batches_of(shape, place=place)


def by_pytorch(module, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_difference(a, b):
    return max(float((torch.as_tensor(x).double().cpu() - torch.as_tensor(y).double().cpu()).abs().max()) for x, y in zip(a, b, strict=True))


def say(**line):
    if LINES:
        print(json.dumps(line), flush=True)


class Results(unittest.TextTestResult):
    """As each test begins and fails; subtests count for themselves."""

    def startTest(self, test):
        super().startTest(test)
        say(begun=test.id().removeprefix("__main__."))

    def failed(self, test, error):
        say(what=str(test.id()).removeprefix("__main__."), right=False, why=f"{error[0].__name__}: {error[1]}"[:600])

    def addError(self, test, error):
        super().addError(test, error)
        self.failed(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.failed(subtest, error)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        say(what=test.id().removeprefix("__main__."), skipped=reason)


class Comparing(unittest.TestCase):

    def close(self, what, found, expected, limit=1e-4):
        """One comparison: numbers, or tensors, beside each other."""
        far = largest_difference(found, expected)
        self.assertLess(far, limit, f"{what} differs from PyTorch's or Keras's")
        say(what=what, right=True, far=far)


class Steps(Comparing):

    def compare(self, name, optimizer="sgd", place="cpu", strategy="single", device="cuda:0", **options):
        module, batches = made(name, place)
        other = copy.deepcopy(module)
        expected = by_pytorch(other, OPTIMIZERS[optimizer](other.parameters()), batches)
        step = tt.Step(module, nn.CrossEntropyLoss(), OPTIMIZERS[optimizer](module.parameters()), strategy=strategy, device=device,
                       **options)
        found = [step(*batch) for batch in batches]
        self.assertTrue(os.path.exists(os.path.join(CACHE.name, "telar", "algorithms")), "no GPU has computed")
        self.close("losses", found, expected)
        self.assertEqual({p.device.type for p in module.parameters()}, {place})
        self.close("values after the steps", module.state_dict().values(), other.state_dict().values())
        self.close("loss in evaluation", [step.evaluate(*batches[0])], [F.cross_entropy(other.eval()(batches[0][0]), batches[0][1]).detach()])
        self.close("predictions", [step.predict(batches[0][0])], [other(batches[0][0]).detach()])

    def test_modules(self):
        for place in PLACES:
            for name in MODULES:
                for optimizer in OPTIMIZERS:
                    with self.subTest(name, optimizer=optimizer, place=place):
                        self.compare(name, optimizer, place)

    def test_strategies(self):
        for strategy, options in STRATEGIES.items():
            for device in ("cuda", ["cuda:0"] * options.get("replicas", 1)):
                with self.subTest(strategy, device=device):
                    self.compare("convnet", strategy=strategy, device=device, **options)

    def test_written_values_are_taken(self):
        module, batches = made("mlp")
        step = tt.Step(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), device="cuda")
        step(*batches[0])
        with torch.no_grad():
            for p in module.parameters():
                p.zero_()
        self.close("loss of zeros", [step(*batches[1])], [numpy.log(5)], 1e-5)

    def test_goes_on_after_a_step_that_is_not_finite(self):
        """A GPU stops all later updates of a run ahead; here the next step is made."""
        module, batches = made("mlp")
        other = copy.deepcopy(module)
        step = tt.Step(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), device="cuda")
        step(*batches[0])
        with self.assertRaisesRegex(telar.Error, "not finite"):
            step(torch.full_like(batches[1][0], float("inf")), batches[1][1])
        found = [step(*batches[2]), step(*batches[3])]
        expected = by_pytorch(other, torch.optim.SGD(other.parameters(), 0.1), [batches[0], batches[2], batches[3]])[1:]
        self.close("losses", found, expected)

    def test_fit(self):
        module, batches = made("mlp")
        other = copy.deepcopy(module)
        history = tt.fit(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), batches[:1], epochs=3, device="cuda",
                         progress=False)
        expected = by_pytorch(other, torch.optim.SGD(other.parameters(), 0.1), batches[:1] * 3)
        self.close("losses", [epoch["loss"] for epoch in history], expected)

    def test_servers(self):
        module, batches = made("mlp")
        history = tt.fit(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), batches[:1] * 4, epochs=3,
                         strategy="downpour", workers=1, servers=1, device="cuda", progress=False)
        self.assertLess(history[-1]["loss"], history[0]["loss"])


class Refused(unittest.TestCase):

    def refused(self, reason, forward=None, **options):
        module, batches = made("mlp")
        if forward:
            module.forward = forward
        step = tt.Step(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), **options)
        with self.assertRaisesRegex(telar.Error, reason):
            step(*batches[0])

    def test_names(self):
        self.refused("there is no device 'tpu'", device="tpu")
        self.refused("there is no cuda:99; CUDA reports", device="cuda:99")
        self.refused("there are 3 devices for 2 workers", device=["cuda:0"] * 3, strategy="mirrored", replicas=2)
        self.refused("all run on CPUs, or all on GPUs", device=["cuda:0", "cpu"], strategy="mirrored", replicas=2)
        for strategy, options in (("pipeline", {"stages": 2}), ("sharded", {"replicas": 2})):
            self.refused(f"the workers of the strategy {strategy} run on CPUs, not on cuda", device="cuda", strategy=strategy, **options)
        with self.assertRaisesRegex(telar.Error, "device has no name"):
            self.refused("", device=[])

    def test_pytorch_is_no_engine(self):
        self.refused("PyTorch would compute the module, where it is, and not Telar on cuda:0", device="cuda:0", engine="torch")
        self.refused("not Telar on cuda:0; leave device out. Telar cannot", device="cuda:0",
                     forward=lambda x: x[:, :5] * float(x.sum()))

    def test_without_a_gpu(self):
        script = ("import torch, telar, telar.torch as tt\n"
                  "m = torch.nn.Linear(2, 3)\n"
                  "s = tt.Step(m, torch.nn.CrossEntropyLoss(), torch.optim.SGD(m.parameters(), 0.1), device='cuda')\n"
                  "try: s(torch.ones(4, 2), torch.zeros(4, dtype=torch.int64))\n"
                  "except telar.Error as error: print(error)\n")
        out = subprocess.run([sys.executable, "-c", script], env={**os.environ, "TELAR_MODULES": "", "CUDA_VISIBLE_DEVICES": ""},
                             capture_output=True, text=True, check=True).stdout
        self.assertRegex(out, "^cuda cannot be used: .*\n$")


class Keras(Comparing):

    def test_fit_evaluate_predict(self):
        try:
            import keras
        except ModuleNotFoundError:
            self.skipTest("there is no Keras")
        import telar.keras as tk
        generator = numpy.random.default_rng(1)
        x, y = generator.normal(size=(24, 8)).astype("float32"), generator.integers(0, 3, 24)
        keras.utils.set_random_seed(0)
        nets = [keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.BatchNormalization(),
                                  keras.layers.Dense(3)]) for _ in range(2)]
        nets[1].set_weights(nets[0].get_weights())
        for net in nets:
            net.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        tk.use(nets[0], device="cuda")
        found, expected = (net.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"] for net in nets)
        self.close("losses", found, expected)
        self.close("loss in evaluation", [nets[0].evaluate(x, y, verbose=0)], [nets[1].evaluate(x, y, verbose=0)])
        self.close("predictions", [nets[0].predict(x, verbose=0)], [nets[1].predict(x, verbose=0)], 1e-3)


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--lines"], verbosity=1,
                  testRunner=unittest.TextTestRunner(resultclass=Results))
