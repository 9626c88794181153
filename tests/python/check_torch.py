#!/usr/bin/env python3
"""telar.torch against PyTorch itself, on the models of models.py and on hostile constructs.

    python tests/python/check_torch.py [-k NAME] [CLASS...]

All classes by default; tests/CMakeLists.txt says which of them `scripts/test` runs.

It needs a PyTorch of 2.6 or later, and for some models torchvision and transformers; what is missing is named. PYTHONPATH
must have the package telar (build/release/python).
"""

import copy
import functools
import gc
import io
import itertools
import json
import math
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings
import weakref

import numpy

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ModuleNotFoundError:
    print("check_torch: SKIPPED, there is no PyTorch; scripts/install-peers installs it")
    sys.exit(77)

import telar
import telar.torch as tt

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from families import FAMILIES  # noqa: E402: the folder must be on the path first
from further_models import FURTHER  # noqa: E402
from models import MODELS  # noqa: E402
import torch_indexing  # noqa: E402
from torch_constructs import CONSTRUCTS, Named, eager as eager_step, named  # noqa: E402

MODELS |= FURTHER | FAMILIES | torch_indexing.MODELS

warnings.filterwarnings("ignore")
STEPS = 20
BATCHES = (6, 4, 5)
CHANCE = {"vae"}  # its noise cannot be that of PyTorch
LARGE = {"resnet50", "vgg16", "densenet121", "efficientnet_b0", "convnext_tiny", "swin_t", "vit_b_16", "mobilenet_v2",
         "mobilenet_v3_small", "resnet18", "multiscale_vit"}
# What they are made of is in another model, too, which takes less time.
FURTHER_OF_A_KIND = (LARGE - {"resnet18", "mobilenet_v3_small"}) | {"VisionTransformer",
    "actor_critic", "arcface", "bloom", "deberta", "decision_transformer", "distilbert_mask", "gpt2", "masked_bert",
    "masked_transformer", "mixer", "opt", "patchtst", "segformer", "stablelm", "vit_mae", "xlnet"}


def built(name, seed=0):
    """A model without dropout, its loss, and batches."""
    torch.manual_seed(seed)
    try:
        module, loss, make = MODELS[name]()
    except ModuleNotFoundError as error:
        raise unittest.SkipTest(f"{name}: {error}") from None
    for layer in module.modules():
        for rate in ("p", "dropout", "dropout_p"):
            if isinstance(getattr(layer, rate, None), float):
                setattr(layer, rate, 0.0)
    return module, loss, make


def loss_of(module, loss, batch):
    return tt.capture.WithLoss(module, loss)(*batch)[0]


def train(module, loss, optimizer, batches):
    losses = []
    module.train()
    for batch in batches:
        optimizer.zero_grad()
        value = loss_of(module, loss, batch)
        value.backward()
        optimizer.step()
        losses.append(float(value.detach()))
    return losses


def doubled(batch):
    return [tensor.double() if tensor.is_floating_point() else tensor for tensor in batch]


def largest_difference(a, b):
    return max(float((x.detach().double() - y.detach().double()).abs().max()) for x, y in zip(a, b))


class OfAModel:
    """Each model trains as in PyTorch: as near to its float64 as its float32 is, or nearer than a small bound."""

    def check(self, name, steps, rate):
        module, loss, make = built(name)
        other, exact = copy.deepcopy(module), copy.deepcopy(module).double()
        batches = [make(BATCHES[i % len(BATCHES)]) for i in range(steps)]
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), rate, momentum=0.9), engine="telar")
        found = [step(*batch) for batch in batches]
        single, double = (train(m, loss, torch.optim.SGD(m.parameters(), rate, momentum=0.9), of)
                          for m, of in ((other, batches), (exact, [doubled(batch) for batch in batches])))
        error = 0  # the largest one of PyTorch's float32 so far: it grows from step to step, but may be small in one by chance
        for i, (a, b, right) in enumerate(zip(found, single, double)):
            error = max(error, abs(b - right))
            bound = max((1e-5 if i == 0 else 5e-3) * max(1, abs(right)), 3 * error)
            self.assertLessEqual(abs(a - right), bound, f"step {i}: losses {found}, in float32 {single}, in float64 {double}")
        step.sync()
        for (key, a), b in zip(module.state_dict().items(), other.state_dict().values()):
            if "num_batches" in key:
                self.assertEqual(int(a), int(b))


class Models(OfAModel, unittest.TestCase):
    """Those with a construct of their own."""


class FurtherModels(OfAModel, unittest.TestCase):
    """Those of FURTHER_OF_A_KIND, which only `scripts/test --full --all` trains."""


def add_model_test(name):
    def test(self):
        if name in CHANCE:
            self.skipTest(f"{name} draws numbers")
        large = name in LARGE
        self.check(name, 4 if large else STEPS, 1e-3 if large else 1e-2)

    setattr(FurtherModels if name in FURTHER_OF_A_KIND else Models, f"test_{name}", test)


for _name in MODELS:
    add_model_test(_name)


class Operations(unittest.TestCase):
    """The value and the gradient of an operation between two layers, against float64."""

    OPERATIONS = {
        "sin": lambda x: torch.sin(3 * x), "cos": lambda x: torch.cos(3 * x), "selu": F.selu, "celu": lambda x: F.celu(x, 0.7),
        "elu": lambda x: F.elu(x, 1.3), "mish": F.mish, "logsigmoid": F.logsigmoid, "expm1": lambda x: torch.expm1(0.3 * x), "sign": lambda x: x * torch.sign(x),
        "log2": lambda x: torch.log2(x.abs() + 0.1), "log10": lambda x: torch.log10(x.abs() + 0.1),
        "logaddexp": lambda x: torch.logaddexp(x, x.flip(1)), "softsign": F.softsign, "hardshrink by hand": lambda x: x * (x.abs() > 0.3),
        "where": lambda x: torch.where(x > 0.1, 2 * x, -x), "not": lambda x: x.masked_fill(~(x >= 0), 0.2),
        "and": lambda x: x * ((x < 0.5) & (x.flip(1) <= 0.4)).float(), "or": lambda x: x * ((x < -0.5) | (x.flip(2) > 0.2)).float(),
        "clamp by tensors": lambda x: x.clamp(min=0.2 * x.flip(1), max=torch.tensor(0.4)), "amin": lambda x: x - x.amin(1, keepdim=True),
        "min": lambda x: x - x.min(2, keepdim=True).values, "cumsum": lambda x: x.cumsum(2), "cumsum 1": lambda x: x.cumsum(1),
        "reflect": lambda x: F.pad(x, (2, 3), mode="reflect"),
        "replicate": lambda x: F.pad(x, (3, 0), mode="replicate"), "circular": lambda x: F.pad(x, (1, 2), mode="circular"),
        "pairs": lambda x: x[:, torch.tensor([0, 4, 2]), torch.tensor([5, 0, -1])], "rows": lambda x: x[:, :, torch.tensor([[3, 1], [0, 0]])],
        "unshuffle": lambda x: F.pixel_unshuffle(x.reshape(-1, 1, 6, 5)[..., :4], 2), "linear": lambda x: F.interpolate(x, 9, mode="linear"),
        "nearest": lambda x: F.interpolate(x, 11, mode="nearest"),
        "acos": lambda x: torch.acos(0.99 * torch.tanh(x)), "asin": lambda x: torch.asin(0.99 * torch.tanh(x)), "atan": torch.atan,
        "atan2": lambda x: torch.atan2(x, x.flip(2) + 0.3), "tan": lambda x: torch.tan(torch.tanh(x)), "sinh": lambda x: torch.sinh(torch.tanh(x)), "cosh": lambda x: torch.cosh(torch.tanh(x)),
        "asinh": torch.asinh, "acosh": lambda x: torch.acosh(1.2 + x * x), "atanh": lambda x: torch.atanh(0.9 * torch.tanh(x)),
        "erf": torch.erf, "erfc": torch.erfc, "exp2": lambda x: torch.exp2(torch.tanh(x)), "log1p": lambda x: torch.log1p(x * x), "logit": lambda x: torch.logit(torch.sigmoid(x)),
        "hypot": lambda x: torch.hypot(x, 1 + x.flip(1)), "lerp": lambda x: torch.lerp(x, x.flip(1), 0.3), "addcmul": lambda x: torch.addcmul(x, x, x.flip(1), value=0.5),
        "addcdiv": lambda x: torch.addcdiv(x, x.flip(1), 2 + x * x), "xlogy": lambda x: torch.xlogy(1 + x * x, 1 + x * x), "floor": lambda x: x * torch.floor(3 * x),
        "round": lambda x: x * torch.round(3 * x), "ceil": lambda x: x * torch.ceil(3 * x), "trunc": lambda x: x * torch.trunc(3 * x), "frac": torch.frac,
        "straight through": lambda x: x + (torch.round(x) - x).detach(), "remainder": lambda x: torch.remainder(x, 0.7), "fmod": lambda x: torch.fmod(x, 0.7),
        "rounding division": lambda x: x * torch.div(x, 0.3, rounding_mode="floor"), "softshrink": F.softshrink, "hardshrink": F.hardshrink,
        "threshold": lambda x: F.threshold(x, 0.1, 0.2), "tanhshrink": F.tanhshrink, "power of numbers": lambda x: (1 + x * x) ** (0.5 * torch.tanh(x)), "number to a power": lambda x: 2.0 ** torch.tanh(x),
        "ne": lambda x: (x != 0) * x, "norm 1": lambda x: x.norm(1, dim=1), "norm 3": lambda x: torch.linalg.vector_norm(x, 3, dim=2), "largest": lambda x: x.norm(math.inf, dim=2),
        "prod": lambda x: x.prod(1), "cumprod": lambda x: x.cumprod(2), "einsum": lambda x: torch.einsum("nij,nkj->nik", x, x.flip(1)), "triu": torch.triu,
        "diagonal": lambda x: x.diagonal(0, 1, 2), "windows": lambda x: x.unfold(2, 3, 2), "columns": lambda x: F.unfold(x.unsqueeze(1), 3, padding=1, stride=2),
        "pooling upwards": lambda x: F.max_pool2d(x.unsqueeze(1), 3, 2, ceil_mode=True), "pooling upwards with a border": lambda x: F.max_pool2d(x.unsqueeze(1), 3, 2, 1, ceil_mode=True),
        "swapped": lambda x: torch.swapaxes(x, 1, 2),
        "std and mean": lambda x: torch.std_mean(x, 1)[0], "cdist": lambda x: torch.cdist(x, x.flip(2) + 1), "vector": lambda x: (x @ torch.arange(6.0).to(x)),
        "norms of zeros": lambda x: F.normalize(x * torch.tensor([0.0, 1, 1, 0, 1]).unsqueeze(1), dim=2), "five axes": lambda x: x.reshape(-1, 1, 5, 2, 3) @ x.reshape(-1, 1, 5, 3, 2), "pairs apart": lambda x: F.pairwise_distance(x, x.flip(1) + 1, p=1),
        "interleaved": lambda x: x.repeat_interleave(2, 1), "tiled": lambda x: torch.tile(x, (1, 2, 1)), "transposed row": lambda x: F.conv_transpose1d(x, torch.ones(5, 2, 3).to(x), stride=2),
        "gamma": lambda x: torch.lgamma(0.1 + 3 * torch.sigmoid(x)), "no items": lambda x: torch.cat([x[:, :, :0], -x[:, :, 0:]], 2) + torch.cat([x[:, 5:], x], 1),
        "means without padding": lambda x: F.avg_pool2d(x.unsqueeze(1), 3, 2, 1, count_include_pad=False), "means upwards": lambda x: F.avg_pool2d(x.unsqueeze(1), 3, 2, 1, ceil_mode=True),
        "means upwards without padding": lambda x: F.avg_pool2d(x.unsqueeze(1), (3, 2), (2, 3), 1, ceil_mode=True, count_include_pad=False),
        "linear from corners": lambda x: F.interpolate(x, scale_factor=2, mode="linear", align_corners=True),
    }

    def test_gather(self):
        def operation(x, given):
            index = ((given > 0).sum(1).reshape(-1, 1, 1) + torch.tensor([0, 0, -1, 0, 0, -1])).clamp(0, 4)
            return x + x.gather(1, index)

        self.check(operation, takes_batch=True)

    def test_keys_of_several_heads(self):
        def operation(x):
            queries, keys = x.reshape(-1, 5, 2, 3).transpose(1, 2).repeat(1, 2, 1, 1), x.reshape(-1, 5, 2, 3).transpose(1, 2)
            return F.scaled_dot_product_attention(queries, keys, keys.flip(2), enable_gqa=True)

        self.check(operation)

    def test_masks_that_are_the_same_for_all_samples(self):
        def operation(x):
            mask = torch.ones(5, 5, dtype=torch.bool).tril().expand(x.shape[0], 1, 5, 5)
            heads = x.reshape(-1, 5, 2, 3).transpose(1, 2)
            return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)

        self.check(operation)

    def test_a_part_in_place(self):
        def operation(x):
            y = torch.zeros_like(x)
            y[:, 1:3] = x[:, 2:4] * 2
            y[:, 0, 2:].add_(x[:, 4, 2:])
            y[:, -1] = 0.5
            return y * x

        self.check(operation)

    def test_a_view_that_is_used_after_its_tensor_has_changed(self):
        def operation(x):
            y = x * 2
            row = y[:, 0]
            y.mul_(3)
            return y + row.unsqueeze(1)

        with self.assertRaisesRegex(telar.Error, "in place"):
            self.check(operation)

    def test_integers_beside_numbers(self):
        self.check(lambda x, given: x * (given > 0).long().sum(1).reshape(-1, 1, 1) + F.one_hot((given[:, :1] > 0).long(), 6), takes_batch=True)

    def test_one_item_of_each_sample(self):
        self.check(lambda x, given: x[torch.arange(x.shape[0]), (given > 0).sum(1)].unsqueeze(1), takes_batch=True)

    def test_a_region_with_gradient_within_one_without(self):
        def operation(x):
            with torch.no_grad():
                y = x * 2
                with torch.enable_grad():
                    z = torch.sin(x) * y
                z = z + torch.cos(x)
            return z + x * y

        self.check(operation)

    def test_changed_copies_of_the_batch(self):
        """The values before a change in place, and after it."""
        def operation(x, given):
            mask = (given > 0).long()
            before = mask[:, :1].clone()
            mask[:, 0] = 2
            mask[:, 1:].add_(1)
            return x * mask.sum(1).reshape(-1, 1, 1) + before.unsqueeze(2)

        self.check(operation, takes_batch=True)

    def check(self, operation, takes_batch=False):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(4, 30)

            def forward(self, x):
                y = operation(self.first(x).reshape(-1, 5, 6), *([x] if takes_batch else []))
                return (y * y).flatten(1).sum(1)

        torch.manual_seed(3)
        net = Net()
        exact = copy.deepcopy(net).double()
        step = tt.Step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), 0.01), engine="telar")
        batches = [(torch.randn(n, 4), torch.randn(n)) for n in (6, 5)]
        found = [step(*batch) for batch in batches]
        step.sync()
        right = train(exact, nn.MSELoss(), torch.optim.SGD(exact.parameters(), 0.01), [doubled(batch) for batch in batches])
        for a, b in zip(found, right):
            self.assertLess(abs(a - b), 1e-5 * max(1, abs(b)))
        size = max(1, float(exact.first.weight.detach().abs().max()))
        self.assertLess(largest_difference(net.parameters(), exact.parameters()), 1e-5 * size)


def add_operation_test(name, operation, takes_batch=False):
    setattr(Operations, "test_" + name.replace(" ", "_"), lambda self: self.check(operation, takes_batch))


for _name, _operation in Operations.OPERATIONS.items():
    add_operation_test(_name, _operation)
for _name, _operation in torch_indexing.OPERATIONS.items():
    add_operation_test(_name, _operation, _operation.__code__.co_argcount == 2)


class Rounding(unittest.TestCase):
    """Gradients that differ from PyTorch's are right where rounding alone can make that difference."""

    def is_rounding(self, bias, found):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.tensor([0.5, bias, 0.7]))

            def forward(self, x):
                return torch.relu(self.w[0] * x + self.w[1]) + self.w[2] * x

        net, loss, batch = Net(), nn.L1Loss(), (torch.full((2,), 2.0), torch.full((2,), -1.0))
        gradients = tt.check.eager(net, loss, batch)[1]
        found = {"w": numpy.array(found, dtype=numpy.float32)}
        places = tt.check.beyond(found, gradients)
        self.assertTrue(places)
        return tt.check.is_rounding(net, loss, batch, found, gradients, places)

    def test_a_relu_of_zero(self):
        self.assertTrue(self.is_rounding(-1.0, [2, 1, 2]))

    def test_other_gradients(self):
        self.assertFalse(self.is_rounding(-0.9, [2, 1, 2.1]))
        self.assertFalse(self.is_rounding(-1.0, [2, 1, 20]))


class Compared(unittest.TestCase):
    """How many samples Telar and PyTorch compare before the first step."""

    def compared(self, side, samples):
        net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * side * side, 2))
        batch = torch.zeros(samples, 3, side, side), torch.zeros(samples, dtype=torch.int64)
        program = tt.capture.Capture(net, nn.CrossEntropyLoss(), batch, set()).training
        return [len(tensor) for tensor in tt.check.compared(program, batch)]

    def test_all_of_small_ones(self):
        self.assertEqual(self.compared(8, 64), [64, 64])

    def test_a_few_of_large_ones(self):
        # For each pixel 3 numbers of the image and 16 each of the convolution, the ReLU and the flattened view; label and outputs.
        self.assertEqual(self.compared(300, 40), [2**26 // (51 * 300 * 300 + 1 + 2)] * 2)

    def test_at_least_two(self):
        self.assertEqual(self.compared(1000, 3), [2, 2])


class Positions(unittest.TestCase):
    """What is refused of positions and masks, and files of models with them."""

    def refused(self, words, operation, *more):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = nn.Linear(4, 5)

            def forward(self, x, *given):
                return operation(self.f(x), *given)

        net, batch = Net(), (torch.randn(6, 4), *more, torch.randn(6, 5))
        with self.assertRaisesRegex(telar.Error, words):
            tt.Step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), 0.1), engine="telar")(*batch)

    def test_other_samples(self):
        self.refused("items of other samples", lambda x, i: x[i], torch.randint(0, 6, (6,)))
        self.refused("axis of the samples", lambda x: x + x.argmax(0))
        self.refused("axis of the samples", lambda x: x.sort(0)[0])
        self.refused("whole batch", lambda x: x + x.argmax())

    def test_parameters_that_only_choose(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.router, self.matrices = nn.Linear(4, 3), nn.Parameter(torch.randn(3, 4, 5))

            def forward(self, x):
                return torch.bmm(x.unsqueeze(1), self.matrices[self.router(x).argmax(1)]).squeeze(1)

        net, batch = Net(), (torch.randn(6, 4), torch.randn(6, 5))
        other = copy.deepcopy(net)
        optimizers = [torch.optim.SGD(m.parameters(), 0.1, weight_decay=0.1) for m in (net, other)]
        step = tt.Step(net, nn.MSELoss(), optimizers[0], engine="telar")
        step(*batch)
        step.sync()
        train(other, nn.MSELoss(), optimizers[1], [batch])
        self.assertLess(largest_difference(net.parameters(), other.parameters()), 1e-6)

    def test_positions_that_may_be_the_same(self):
        self.refused("may write to a position twice", lambda x, i: torch.zeros_like(x).scatter(1, i, x), torch.randint(0, 5, (6, 5)))

    def test_what_a_mask_chooses(self):
        self.refused("mask chooses", lambda x: x - x[x > 0].std())
        self.refused("divides by a sum|sum or mean", lambda x: x - x[x > 0].mean())

    def test_an_index_that_is_out_of_range(self):
        module, loss, make = built("conditional_random_field")
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1), engine="telar")
        tokens, labels = make(4)
        step(tokens, labels)
        labels[2, 3] = 5
        with self.assertRaisesRegex(telar.Error, "5"):
            step(tokens, labels)

    def test_a_batch_norm_that_is_called_twice(self):
        for options in ({}, {"strategy": "mirrored", "replicas": 2}):
            module, loss, make = built("two_views")
            other, batches = copy.deepcopy(module), [make(n) for n in (6, 4, 8)]
            step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1), engine="telar", **options)
            for batch in batches:
                step(*batch)
            step.sync()
            train(other, loss, torch.optim.SGD(other.parameters(), 0.1), batches)
            for a, b in zip(module.state_dict().values(), other.state_dict().values()):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_files(self):
        for name in ("mixture_of_experts", "weights_of_one_expert"):
            module, loss, make = built(name)
            step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1), engine="telar")
            batch = make(6)
            step(*batch)
            step.sync()
            with tempfile.TemporaryDirectory() as folder:
                step.save(f"{folder}/m.telar")
                found = telar.load(f"{folder}/m.telar").predict(batch[0].numpy())
            self.assertLess(numpy.abs(found - module.eval()(batch[0]).detach().numpy()).max(), 1e-5)


class Strategies(unittest.TestCase):
    """Every strategy of one process gives what one device gives."""

    def check(self, strategy, name="unet", tolerance=1e-5, **options):
        module, loss, make = built(name)
        other = copy.deepcopy(module)
        batches = [make(n) for n in (6, 4, 5, 6)]
        steps = [tt.Step(m, loss, torch.optim.Adam(m.parameters(), 1e-3), strategy=s, **o)
                 for m, s, o in ((module, "single", {}), (other, strategy, options))]
        for batch in batches:
            single, parallel = (step(*batch) for step in steps)
            self.assertLessEqual(abs(single - parallel), tolerance * max(1, abs(single)))
        for step in steps:
            step.sync()
        self.assertLess(largest_difference(module.state_dict().values(), other.state_dict().values()), 2e-3)

    def test_mirrored(self):
        self.check("mirrored", replicas=2)

    def test_sharded(self):
        self.check("sharded", replicas=3)

    def test_pipeline(self):
        self.check("pipeline", name="mingpt", stages=2)

    def test_tensor(self):
        self.check("tensor", name="mnist_convnet", ways=2)

    def test_tensor_of_several_rows_for_each_sample(self):
        rules = {"mingpt": ["wte=rows"], "lstm_language_model": ["embedding=rows"], "bert": ["bert.embeddings.word_embeddings=rows", "constant=whole"],
                 "VisionTransformer": []}  # whose rows are ordered by place, then by sample
        for name, split in rules.items():
            with self.subTest(name):
                self.check("tensor", name=name, ways=2, split=[*split, "*=columns"])

    def test_positions(self):
        for name, split in (("mixture_of_experts", ["embedding=rows", "*=columns"]), ("weights_of_one_expert", ["*=columns"]),
                            ("graphs_with_edges", ["*=columns"])):
            for strategy, options in (("mirrored", {"replicas": 2}), ("sharded", {"replicas": 2}), ("pipeline", {"stages": 2}),
                                      ("tensor", {"ways": 2, "split": split})):
                with self.subTest(strategy=strategy, name=name):
                    self.check(strategy, name=name, **options)

    def test_hybrid(self):
        self.check("hybrid", name="mlp", data=2, model=2, stages=1)


class State(unittest.TestCase):
    """What passes between PyTorch and Telar arrives unchanged."""

    def optimizers(self, parameters):
        return {
            "sgd": torch.optim.SGD(parameters, 0.01, momentum=0.9, nesterov=True, weight_decay=1e-3),
            "adam": torch.optim.Adam(parameters, 0.01, betas=(0.8, 0.99), eps=1e-7, weight_decay=1e-3),
            "adamw": torch.optim.AdamW(parameters, 0.01, weight_decay=0.1),
            "rmsprop": torch.optim.RMSprop(parameters, 0.01, alpha=0.9, momentum=0.5),
            "adagrad": torch.optim.Adagrad(parameters, 0.01, lr_decay=0.1),
        }

    def test_optimizers_go_on_where_the_other_stopped(self):
        for name in ("sgd", "adam", "adamw", "rmsprop", "adagrad"):
            with self.subTest(name):
                module, loss, make = built("mlp")
                other = copy.deepcopy(module)
                optimizer, right = self.optimizers(list(module.parameters()))[name], self.optimizers(list(other.parameters()))[name]
                batches = [make(8) for _ in range(9)]
                train(other, loss, right, batches)
                train(module, loss, optimizer, batches[:3])
                step = tt.Step(module, loss, optimizer)
                for batch in batches[3:6]:
                    step(*batch)
                step.sync()
                train(module, loss, optimizer, batches[6:])
                self.assertLess(largest_difference(module.parameters(), other.parameters()), 2e-5)

    def test_round_trip_is_exact(self):
        module, loss, make = built("unet")
        optimizer = torch.optim.Adam(module.parameters(), 1e-3)
        step = tt.Step(module, loss, optimizer)
        step(*make(4))
        step.sync()
        before = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
        step.load()
        step.sync()
        torch.testing.assert_close((module.state_dict(), optimizer.state_dict()["state"]), (before[0], before[1]["state"]),
                                   rtol=0, atol=0)

    def test_learning_rate_is_read_at_each_step(self):
        module, loss, make = built("mlp")
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        step = tt.Step(module, loss, optimizer)
        step(*make(4))
        step.sync()
        before = [p.detach().clone() for p in module.parameters()]
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.0)
        step(*make(4))
        step.sync()
        self.assertEqual(largest_difference(before, module.parameters()), 0)

    def test_options_of_the_optimizer_stay(self):
        module, loss, make = built("mlp")
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        step = tt.Step(module, loss, optimizer, engine="telar")
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
        with self.assertRaisesRegex(telar.Error, "an option of the optimizer has changed"):
            for _ in range(3):
                step(*make(4))
                scheduler.step()

    def test_scheduler_sees_the_steps(self):
        module, loss, make = built("mlp")
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        tt.Step(module, loss, optimizer)(*make(4))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler.step()

    def test_outputs_are_those_before_the_step(self):
        module = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        step = tt.Step(module, nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.1), strategy="mirrored", replicas=2)
        for _ in range(2):
            x, y = torch.randn(6, 4), torch.randn(6, 3)
            step.load()  # nothing before the first step
            right = module(x).detach()
            torch.testing.assert_close(step.outputs(x, y), right)
            step(x, y)
            self.assertGreater(largest_difference([step.outputs(x, y)], [right]), 1e-4)
            step.sync()

    def test_outputs_in_training_are_refused(self):
        for layer in (nn.Dropout(0.5), nn.BatchNorm1d(3)):
            module = nn.Sequential(nn.Linear(4, 3), layer)
            step = tt.Step(module, nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.1))
            with self.assertRaisesRegex(telar.Error, "something else in training"):
                step.outputs(torch.randn(6, 4), torch.randn(6, 3))

    def test_outputs_that_are_no_tensor_are_refused(self):
        class Two(nn.Linear):
            def forward(self, x):
                return super().forward(x), x

        module = Two(4, 3)
        step = tt.Step(module, lambda m, x, y: nn.functional.mse_loss(m(x)[0], y), torch.optim.SGD(module.parameters(), 0.1))
        with self.assertRaisesRegex(telar.Error, "not one tensor"):
            step.outputs(torch.randn(6, 4), torch.randn(6, 3))

    def test_evaluation_mode_is_refused_where_it_matters(self):
        for layer, matters in ((nn.Dropout(0.5), True), (nn.Tanh(), False)):
            module = nn.Sequential(nn.Linear(4, 3), layer).eval()
            step = tt.Step(module, nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.1))
            batch = torch.randn(6, 4), torch.randn(6, 3)
            if matters:
                with self.assertRaisesRegex(telar.Error, "in evaluation mode"):
                    step(*batch)
            else:
                step(*batch)

    def test_values_are_those_of_the_module(self):
        module, loss, make = built("mlp")
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1))
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        step(*make(4))
        values = step.values()
        self.assertEqual(set(values), set(before))
        for name, p in module.named_parameters():
            torch.testing.assert_close(torch.from_numpy(values[name]).reshape(p.shape), p.detach(), rtol=0, atol=0)
        self.assertGreater(largest_difference(before.values(), module.parameters()), 0)

    def test_file_predicts_as_the_module(self):
        module, loss, make = built("unet")
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1))
        batch = make(4)
        step(*batch)
        step.sync()
        with tempfile.TemporaryDirectory() as folder:
            step.save(os.path.join(folder, "m.telar"))
            loaded = telar.load(os.path.join(folder, "m.telar"))
        module.eval()
        with torch.no_grad():
            right = module(batch[0]).numpy()
            right_loss = float(loss(module(batch[0]), batch[1]))
        numpy.testing.assert_allclose(loaded.predict(batch[0]), right, rtol=0, atol=1e-5)
        numpy.testing.assert_allclose(step.predict(batch[0]).numpy(), right, rtol=0, atol=1e-5)
        self.assertAlmostEqual(loaded.evaluate(*batch)["loss"], right_loss, places=5)

    def test_module_is_untouched_by_the_capture(self):
        module, loss, make = built("unet")
        module.inc[1].eval()
        before, modes = copy.deepcopy(module.state_dict()), [layer.training for layer in module.modules()]
        state = torch.random.get_rng_state()
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.0))
        batch = make(4)
        state = torch.random.get_rng_state()
        step.begin(batch)
        self.assertTrue(bool((state == torch.random.get_rng_state()).all()))
        self.assertEqual(modes, [layer.training for layer in module.modules()])
        self.assertEqual(largest_difference(before.values(), module.state_dict().values()), 0)
        self.assertTrue(all(p.grad is None for p in module.parameters()))

    def test_noise_in_evaluation(self):
        module, loss, make = built("vae")
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.0))
        batch = make(8)
        step(*batch)
        step.sync()
        self.assertTrue(math.isfinite(step.evaluate(*batch)))
        self.assertNotEqual(step.evaluate(*batch), step.evaluate(*batch))  # its noise is drawn anew

    def test_dropout_that_stays_on_in_evaluation(self):
        class Net(nn.Linear):
            def forward(self, x):
                return F.dropout(super().forward(x))

        net = Net(4, 64)
        step = tt.Step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), 0.0), engine="telar")
        x = torch.randn(6, 4)
        step(x, torch.zeros(6, 64))
        masks = [step.predict(x) == 0 for _ in range(2)]
        self.assertFalse(bool((masks[0] == masks[1]).all()))
        for mask in masks:
            self.assertTrue(0.3 < float(mask.float().mean()) < 0.7)

    def test_a_file_with_two_inputs(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(4, 3), nn.Linear(2, 3)

            def forward(self, x, z):
                return self.first(x) - self.second(z)

        x, z, y = torch.randn(6, 4), torch.randn(6, 2), torch.randint(0, 3, (6,))
        own = lambda net, x, z, c: F.cross_entropy(net(x, z), c)  # whose names are in another order than in the alphabet
        for loss in (nn.CrossEntropyLoss(), own):
            net = Net()
            step = tt.Step(net, loss, torch.optim.SGD(net.parameters(), 0.0), engine="telar")
            step(x, z, y)
            with tempfile.TemporaryDirectory() as folder:
                step.save(os.path.join(folder, "m.telar"))
                loaded = telar.load(os.path.join(folder, "m.telar"))
            numpy.testing.assert_allclose(loaded.predict(x, z), net(x, z).detach().numpy(), rtol=0, atol=1e-5)
            self.assertAlmostEqual(loaded.evaluate(x, z, y)["loss"], float(F.cross_entropy(net(x, z), y)), places=5)

    def test_noise_is_drawn_anew_and_does_not_depend_on_the_strategy(self):
        losses = []
        for strategy, options in (("single", {}), ("mirrored", {"replicas": 2})):
            torch.manual_seed(0)
            module, loss, make = MODELS["vae"]()
            batch = make(8)
            step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.0), strategy=strategy, **options)
            losses.append([step(*batch) for _ in range(3)])
        self.assertEqual(len(set(losses[0])), 3)
        numpy.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)

    def test_dropout_of_rows_and_of_steps_first(self):
        """The samples may be in another axis, or have several items in axis 0."""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 1)

            def forward(self, x):
                rows = F.dropout(self.first(x).reshape(-1, 6), 0.5, self.training)
                steps = F.dropout(rows.reshape(x.shape[0], 5, 6).transpose(0, 1), 0.5, self.training)
                return self.last(steps + torch.rand_like(steps)).mean(0).squeeze(1)

        losses = []
        for options in ({}, {"strategy": "mirrored", "replicas": 2}):
            torch.manual_seed(0)
            module, batch = Net(), (torch.randn(8, 5, 4), torch.randn(8))
            step = tt.Step(module, nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.0), engine="telar", **options)
            losses.append([step(*batch) for _ in range(3)])
        self.assertEqual(len(set(losses[0])), 3)
        numpy.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


class Threads(unittest.TestCase):
    def test_the_products_run_on_telars_team(self):
        """PyTorch's OpenMP library, which it loads for all, must not get a team of its own for Telar's products."""
        code = """
import os, torch
import telar.torch as tt
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
step = tt.Step(net, torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), threads=2, check=False)
batch = torch.randn(256, 256), torch.randint(0, 10, (256,))
torch.set_num_threads(1)
before = len(os.listdir("/proc/self/task"))
step(*batch)
step(*batch)
print(len(os.listdir("/proc/self/task")) - before)
"""
        found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(found.stdout.strip(), "1")


class Groups(unittest.TestCase):
    def check(self, make_optimizer, strategy="single", **options):
        module, loss, make = built("mlp")
        other = copy.deepcopy(module)
        batches = [make(n) for n in (8, 8, 5)]
        optimizer, right = (make_optimizer(m) for m in (module, other))
        schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda n: 0.5 * n) for o in (optimizer, right)]
        step = tt.Step(module, loss, optimizer, strategy=strategy, **options)
        for batch in batches:
            train(other, loss, right, [batch])
            step(*batch)
            for schedule in schedules:
                schedule.step()
        step.sync()
        self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-5)

    def groups(self, module, **options):
        weights, rest = module[1:2].parameters(), module[3:].parameters()
        return [{"params": list(weights)}, {"params": list(rest), **options}]

    def test_have_their_own_decay_and_rate(self):
        self.check(lambda m: torch.optim.AdamW(self.groups(m, weight_decay=0.0, lr=0.1), 0.01, weight_decay=0.3))

    def test_some_have_momentum(self):
        self.check(lambda m: torch.optim.SGD(self.groups(m, momentum=0.9, nesterov=True), 0.1))

    def test_of_other_optimizers(self):
        self.check(lambda m: torch.optim.RMSprop(self.groups(m, alpha=0.5, lr=0.001), 0.01))
        self.check(lambda m: torch.optim.Adagrad(self.groups(m, lr_decay=0.1), 0.05))

    def test_under_strategies(self):
        for strategy, options in (("mirrored", {"replicas": 2}), ("sharded", {"replicas": 2}), ("pipeline", {"stages": 2})):
            self.check(lambda m: torch.optim.AdamW(self.groups(m, weight_decay=0.0, lr=0.1), 0.01, weight_decay=0.3),
                       strategy, **options)


class Fit(unittest.TestCase):
    def test_is_the_loop_with_step(self):
        module, loss, make = built("mlp")
        other = copy.deepcopy(module)
        loader = [make(n) for n in (8, 8, 3)]
        optimizer, right = (torch.optim.SGD(m.parameters(), 0.05) for m in (module, other))
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        history = tt.fit(module, loss=loss, optimizer=optimizer, loader=loader, epochs=2, validation=loader, scheduler=schedule,
                         progress=False)
        train(other, loss, right, loader)
        right.param_groups[0]["lr"] = 0.025
        losses = train(other, loss, right, loader)
        self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-6)
        mean = sum(value * len(batch[0]) for value, batch in zip(losses, loader)) / 19
        self.assertAlmostEqual(history[1]["loss"], mean, places=5)
        with torch.no_grad():
            right = sum(float(loss_of(module, loss, batch)) * len(batch[0]) for batch in loader) / 19
        self.assertAlmostEqual(history[1]["validation_loss"], right, places=5)

    def test_validation_does_not_depend_on_the_batches(self):
        torch.manual_seed(0)
        x, y = torch.randn(60, 4), torch.randint(0, 3, (60,))
        y[:7] = 0
        net = nn.Linear(4, 3)
        for loss, scale in ((nn.CrossEntropyLoss(), 1), (nn.CrossEntropyLoss(torch.tensor([0.1, 1.0, 5.0])), 1),
                            (nn.CrossEntropyLoss(ignore_index=0), 1), (nn.CrossEntropyLoss(reduction="sum"), 60),
                            (functools.partial(F.cross_entropy, ignore_index=0), 1)):
            for engine in ("telar", "torch"):
                for size in (2, 20, 60):
                    loader = [(x[i:i + size], y[i:i + size]) for i in range(0, 60, size)]
                    history = tt.fit(net, loss, torch.optim.SGD(net.parameters(), 0.0), [(x, y)], validation=loader, progress=False,
                                     engine=engine)
                    self.assertAlmostEqual(history[0]["validation_loss"], float(loss(net(x), y)) / scale, places=5)

    def test_interrupted_it_keeps_what_it_has(self):
        module, loss, make = built("mlp")
        before = [p.detach().clone() for p in module.parameters()]

        def batches():
            yield make(8)
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            tt.fit(module, loss, torch.optim.SGD(module.parameters(), 0.1), batches(), progress=False)
        self.assertGreater(largest_difference(before, module.parameters()), 0)


KILLED = """
import os, signal, sys
import torch
from torch import nn
import telar.torch as tt

def run(folder, kill_at, epochs, engine="telar", kind=torch.optim.Adam, cycle=False, **options):
    torch.manual_seed(0)
    x, y = torch.randn(22, 4), torch.randint(0, 3, (22,))
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = kind(net.parameters(), 0.02)
    schedules = torch.optim.lr_scheduler
    scheduler = schedules.OneCycleLR(optimizer, 0.02, total_steps=4) if cycle else schedules.StepLR(optimizer, 1, 0.7)
    made = 0

    class Samples(torch.utils.data.TensorDataset):
        def __getitem__(self, i):
            nonlocal made
            made += 1
            if made == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            noise = torch.randn(4) * 0.01  # chance in the loader
            return super().__getitem__(i)[0] + noise, super().__getitem__(i)[1]

    loader = torch.utils.data.DataLoader(Samples(x, y), batch_size=4, shuffle=True)
    history = tt.fit(net, nn.CrossEntropyLoss(), optimizer, loader, epochs=epochs, validation=[(x, y)], scheduler=scheduler,
                     output=folder, progress=False, engine=engine, **options)
    return net, optimizer, history

if __name__ == "__main__":
    for killed in sys.argv[1:]:  # each in a process of its own; what was imported is not imported again
        folder, samples, steps = killed.split(",")
        if os.fork() == 0:
            run(folder, int(samples), 3, checkpoint_steps=int(steps))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


class Other:
    """What PyTorch does not read from a file without running its code."""


class Checkpoints(unittest.TestCase):
    """fit with an output folder."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.training = {}
        exec(KILLED.replace("__main__", ""), self.training)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_killed(self, *cases):
        script = self.path("killed.py")
        with open(script, "w") as file:
            file.write(KILLED)
        killed = [f"{self.path(name)},{samples},{steps}" for name, samples, steps in cases]
        found = subprocess.run([sys.executable, "-W", "ignore", script, *killed], capture_output=True, text=True, check=True)
        self.assertEqual(found.stdout.split(), [str(-signal.SIGKILL)] * len(cases))

    def same(self, a, b):
        self.assertEqual(largest_difference(a[0].state_dict().values(), b[0].state_dict().values()), 0)
        for state, right in zip(a[1].state_dict()["state"].values(), b[1].state_dict()["state"].values()):
            self.assertEqual(largest_difference(state.values(), right.values()), 0)
        self.assertEqual(*([group["lr"] for group in o.param_groups] for o in (a[1], b[1])))
        for key in ("epoch", "loss", "validation_loss"):
            self.assertEqual([results[key] for results in a[2]], [results[key] for results in b[2]])

    def test_a_killed_training_goes_on_as_if_nothing_had_happened(self):
        run = self.training["run"]
        whole = run(self.path("whole"), 0, 3)
        cases = ("epoch", 40, 0), ("steps", 40, 2), ("before", 6, 0), ("last", 64, 3)
        self.run_killed(*cases)
        for name, _, steps in cases:
            with self.subTest(name):
                self.same(run(self.path(name), 0, 3, resume=True, checkpoint_steps=steps), whole)

    def test_more_epochs_later(self):
        run = self.training["run"]
        whole = run(self.path("whole"), 0, 3)
        run(self.path("parts"), 0, 2)
        self.same(run(self.path("parts"), 0, 3, resume=True), whole)
        self.same(run(self.path("parts"), 0, 3, resume=True), whole)  # nothing is left to do
        self.same(run(self.path("mirrored"), 0, 3, strategy="mirrored", replicas=2),
                  (run(self.path("mirrored2"), 0, 1, strategy="mirrored", replicas=2),
                   run(self.path("mirrored2"), 0, 3, strategy="mirrored", replicas=2, resume=True))[1])

    def test_pytorchs_updates(self):
        """Where PyTorch computes the module, or its own optimizer updates, from the first step or from a later one."""
        run, best = self.training["run"], {"best": True, "checkpoint_steps": 2}
        for name, options in (("own optimizer", {"engine": "auto", "kind": torch.optim.NAdam}), ("options that change", {"engine": "auto", "cycle": True}),
                              ("mirrored", {"engine": "auto", "kind": torch.optim.RAdam, "strategy": "mirrored", "replicas": 2}),
                              ("PyTorch", {"engine": "torch", "kind": torch.optim.NAdam}), ("PyTorch with Adam", {"engine": "torch"})):
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                whole = run(self.path(f"{name} whole"), 0, 3, **options, **best)
                run(self.path(name), 0, 1, **options, **best)
                self.same(run(self.path(name), 0, 3, resume=True, **options, **best), whole)

    def test_counters_of_a_module_that_pytorch_computes(self):
        class Counting(nn.Linear):
            def __init__(self):
                super().__init__(4, 3)
                self.register_buffer("seen", torch.zeros((), dtype=torch.long))

            def forward(self, x):
                self.seen += 1
                return super().forward(x)

        for epochs in (1, 2):
            net = Counting()
            tt.fit(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), [(torch.ones(4, 4), torch.arange(4) % 3)] * 3,
                   epochs=epochs, engine="torch", output=self.path("counting"), resume=True, progress=False)
        self.assertEqual(int(net.seen), 6)

    def test_the_folder(self):
        net, _, history = self.training["run"](self.path("run"), 0, 3)
        files = os.listdir(self.path("run"))
        self.assertTrue(any(name.startswith("events.out.tfevents") for name in files))
        with open(self.path("run/metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines if line["kind"] == "step"], list(range(1, 19)))
        epochs = [line for line in lines if line["kind"] == "epoch"]
        for line, results in zip(epochs, history):
            self.assertAlmostEqual(line["train_loss"], results["loss"])
            self.assertAlmostEqual(line["validation_loss"], results["validation_loss"])
        newest = sorted(os.listdir(self.path("run/checkpoints")))[-1]
        self.assertEqual(newest, "step-00000018")
        from safetensors.torch import load_file
        held = load_file(self.path(f"run/checkpoints/{newest}/model.safetensors"))
        for name, parameter in net.named_parameters():
            self.assertEqual(largest_difference([held[name]], [parameter]), 0)

    def test_the_best_epoch(self):
        module = nn.Linear(1, 1, bias=False)
        nn.init.constant_(module.weight, 0.1)
        x, y = torch.ones(8, 1), torch.ones(8, 1)
        optimizer = torch.optim.SGD(module.parameters(), 0.4)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0 if epoch < 2 else -0.5)  # worse from then on
        history = tt.fit(module, nn.MSELoss(), optimizer, [(x, y)], epochs=20, validation=[(x, y)], scheduler=scheduler,
                         patience=2, best=True, output=self.path("best"), progress=False)
        self.assertEqual(len(history), 4)
        losses = [results["validation_loss"] for results in history]
        self.assertEqual(min(losses), losses[1])
        with torch.no_grad():
            self.assertAlmostEqual(float(F.mse_loss(module(x), y)), losses[1], places=6)

    def test_an_epoch_without_a_finite_loss_is_never_the_best(self):
        module = nn.Linear(1, 1, bias=False)
        nn.init.constant_(module.weight, 0.1)
        x, y = torch.ones(8, 1), torch.ones(8, 1)

        class Validation:
            epochs = 0

            def __iter__(self):
                self.epochs += 1
                yield (x, y * (math.nan if self.epochs in (1, 4) else 1))

        def fit(epochs, resume, validation):
            optimizer = torch.optim.SGD(module.parameters(), 0.4)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                history = tt.fit(module, nn.MSELoss(), optimizer, [(x, y)], epochs=epochs, validation=validation, best=True,
                                 output=self.path("nan"), resume=resume, progress=False)
            return history, [str(each.message) for each in caught]

        validation = Validation()
        history, told = fit(1, False, validation)
        self.assertIn("the validation loss after epoch 1 is nan, so this epoch is no better than any other", told)
        self.assertTrue(any("no epoch had a finite validation loss" in text for text in told))
        history, told = fit(4, True, validation)
        self.assertEqual([math.isnan(results["validation_loss"]) for results in history], [True, False, False, True])
        with torch.no_grad():
            self.assertAlmostEqual(float(F.mse_loss(module(x), y)), history[2]["validation_loss"], places=6)

    def test_patience_without_a_folder(self):
        module = nn.Linear(1, 1)
        batch = (torch.ones(4, 1), torch.ones(4, 1))
        history = tt.fit(module, nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.0), [batch], epochs=20, validation=[batch],
                         patience=3, progress=False)
        self.assertEqual(len(history), 4)

    def test_plateau(self):
        module = nn.Linear(1, 1)
        batch = (torch.ones(4, 1), torch.ones(4, 1))
        optimizer = torch.optim.SGD(module.parameters(), 1e-3)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, threshold=0.9)
        tt.fit(module, nn.MSELoss(), optimizer, [batch], epochs=3, validation=[batch], scheduler=scheduler, output=self.path("plateau"),
               progress=False)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25e-3)

    def test_workers_with_servers(self):
        def run(epochs, name, **options):
            module, loss, make = built("mlp")
            torch.manual_seed(1)
            loader = [make(8) for _ in range(3)]
            optimizer = torch.optim.Adam(module.parameters(), 0.01)
            history = tt.fit(module, loss, optimizer, loader, epochs=epochs, progress=False, strategy="sync_ps", workers=2,
                             output=self.path(name), **options)
            return module, history

        whole, _ = run(3, "whole")
        run(1, "parts")
        parts, history = run(3, "parts", resume=True)
        self.assertLess(largest_difference(whole.parameters(), parts.parameters()), 1e-6)
        self.assertEqual([results["epoch"] for results in history], [1, 2, 3])

    def test_refusals(self):
        run = self.training["run"]
        run(self.path("run"), 0, 1)
        with self.assertRaisesRegex(telar.Error, "already contains a run; continue it with resume=True"):
            run(self.path("run"), 0, 1)
        module = nn.Linear(4, 3)
        arguments = (module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), [])
        for options, reason in (({"resume": True}, "give output="), ({"patience": 2}, "give validation="),
                                ({"best": True, "output": "/nowhere"}, "give validation="), ({}, "no batches"),
                                ({"checkpoint_steps": 2, "output": "/nowhere", "strategy": "downpour"}, "leave out")):
            with self.assertRaisesRegex(telar.Error, reason):
                tt.fit(*arguments, **options)

        class Schedule(torch.optim.lr_scheduler.StepLR):
            def state_dict(self):
                return super().state_dict() | {"other": Other()}

        with self.assertRaisesRegex(telar.Error, "does not read again"):
            tt.fit(*arguments[:3], [(torch.randn(4, 4), torch.randint(0, 3, (4,)))], progress=False, output=self.path("other"),
                   scheduler=Schedule(arguments[2], 1))


class Servers(unittest.TestCase):
    """fit with workers and parameter servers, as threads."""

    def check(self, strategy, limit, make_optimizer, engine="telar", **options):
        module, loss, make = built("mlp")
        other = copy.deepcopy(module)
        loader = [make(n) for n in (8, 8, 3)]
        optimizer, right = (make_optimizer(m.parameters()) for m in (module, other))
        schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (optimizer, right)]
        history = tt.fit(module, loss, optimizer, loader, epochs=3, validation=loader, scheduler=schedules[0], progress=False,
                         strategy=strategy, engine=engine, **options)
        for _ in range(3):
            losses = train(other, loss, right, loader)
            schedules[1].step()
        self.assertLess(largest_difference(module.parameters(), other.parameters()), limit)
        mean = sum(value * len(batch[0]) for value, batch in zip(losses, loader)) / 19
        self.assertAlmostEqual(history[-1]["loss"], mean, places=4)
        return module, optimizer, right

    def test_synchronous_workers_are_one(self):
        _, optimizer, right = self.check("sync_ps", 1e-5, lambda p: torch.optim.Adam(p, 0.01), workers=2, servers=2)
        steps = [{float(state["step"]) for state in o.state.values()} for o in (optimizer, right)]
        self.assertEqual(steps[0], steps[1])
        moments = [[o.state[p]["exp_avg"] for p in o.param_groups[0]["params"]] for o in (optimizer, right)]
        self.assertLess(largest_difference(*moments), 1e-6)

    def test_one_asynchronous_worker_is_one(self):
        self.check("async_sgd", 1e-6, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), workers=1, servers=2)

    def test_updates_are_counted_by_the_servers(self):
        """A push at the end of an epoch may be of fewer steps, and the optimizer may have made updates before."""
        module, loss, make = built("mlp")
        optimizer = torch.optim.Adam(module.parameters(), 0.01)
        loader = [make(8) for _ in range(3)]
        train(module, loss, optimizer, loader)
        other, right = copy.deepcopy((module, optimizer))
        tt.fit(module, loss, optimizer, loader, epochs=2, progress=False, engine="telar", strategy="downpour", workers=1, push_every=2)
        for number, batch in enumerate(loader * 2):
            loss_of(other, loss, batch).backward()
            if number % 3:
                right.step()
                right.zero_grad()
        self.assertEqual({float(state["step"]) for state in optimizer.state.values()}, {7.0})
        self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-5)

    def test_a_workers_own_optimizer_begins_with_the_epoch(self):
        module, loss, make = built("mlp")
        other = copy.deepcopy(module)
        loader = [make(8) for _ in range(3)]
        optimizer = torch.optim.Adam(module.parameters(), 0.01)
        for strategy in ("parameter_averaging", "async_local_sgd"):
            tt.fit(module, loss, optimizer, loader, epochs=2, progress=False, engine="telar", strategy=strategy, workers=1,
                   average_every=2)
            for _ in range(2):
                train(other, loss, torch.optim.Adam(other.parameters(), 0.01), loader)
            self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-5)
        train(module, loss, optimizer, loader)  # PyTorch goes on without a state, too
        train(other, loss, torch.optim.Adam(other.parameters(), 0.01), loader)
        self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-5)

    def test_pytorch_computes_in_workers(self):
        self.check("sync_ps", 1e-5, lambda p: torch.optim.Adam(p, 0.01), engine="torch", workers=2)

    def test_all_learn(self):
        torch.manual_seed(0)
        x = torch.randn(512, 64)
        y = (x @ torch.randn(64, 10)).argmax(1)
        for strategy in ("async_sgd", "downpour", "parameter_averaging"):
            for engine in ("telar", "torch"):
                module, loss, _ = built("mlp")
                loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
                history = tt.fit(module, loss, torch.optim.SGD(module.parameters(), 0.1), loader, epochs=4, progress=False,
                                 strategy=strategy, workers=2, engine=engine)
                self.assertLess(history[-1]["loss"], 0.95 * history[0]["loss"], (strategy, engine))

    def test_a_loader_that_ends_early(self):
        class Short(list):
            def __len__(self):
                return super().__len__() + 1

        module, loss, make = built("mlp")
        with self.assertRaisesRegex(telar.Error, "ended before its 3 batches"):
            tt.fit(module, loss, torch.optim.SGD(module.parameters(), 0.1), Short([make(4), make(4)]), progress=False,
                   strategy="downpour")

    def test_an_error_of_the_loader_is_its_own(self):
        module, loss, make = built("mlp")

        class Failing(list):
            def __iter__(self):
                yield self[0]
                raise ValueError("a broken file")

        with self.assertRaisesRegex(ValueError, "a broken file"):
            tt.fit(module, loss, torch.optim.SGD(module.parameters(), 0.1), Failing([make(4), make(4)]), progress=False,
                   strategy="sync_ps")

    def test_interrupted_it_keeps_what_it_has(self):
        module, loss, make = built("mlp")
        before = [p.detach().clone() for p in module.parameters()]

        made = 0

        class Interrupted(list):
            def __iter__(self):
                nonlocal made
                for made, batch in enumerate(self[:]):
                    if made == 20:
                        os.kill(os.getpid(), signal.SIGINT)
                    yield batch

        with self.assertRaises(KeyboardInterrupt):
            tt.fit(module, loss, torch.optim.SGD(module.parameters(), 0.1), Interrupted([make(8)] * 20000), progress=False,
                   strategy="async_sgd")
        self.assertLess(made, 2000)  # it ends at once, not with the epoch
        self.assertGreater(largest_difference(before, module.parameters()), 0)

    def test_refusals(self):
        module, loss, make = built("mlp")
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        with self.assertRaisesRegex(telar.Error, "must have a length"):
            tt.fit(module, loss, optimizer, iter([make(4)]), progress=False, strategy="downpour")
        with self.assertRaisesRegex(telar.Error, "must be their mean"):
            tt.fit(module, nn.CrossEntropyLoss(reduction="sum"), optimizer, [make(4)], progress=False, strategy="downpour")
        with self.assertRaisesRegex(telar.Error, "use telar.torch.fit"):
            tt.Step(module, loss, optimizer, strategy="downpour")(*make(4))


class Twice(torch.autograd.Function):
    """x, with a backward of its own."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


class Net(nn.Module):
    """A net with a backward of its own, which Telar's operations cannot have."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers, nn.Linear(4, 3))

    def forward(self, x):
        return Twice.apply(self.layers(x))


class InPyTorch(unittest.TestCase):
    """engine="torch"."""

    def check(self, net, loss, batches, strategy="single", limit=1e-6, engine="torch", **options):
        """Steps are PyTorch's with the whole batch; returns the step and PyTorch's module."""
        other = copy.deepcopy(net)
        optimizer, right = (torch.optim.AdamW(m.parameters(), 0.01) for m in (net, other))
        step = tt.Step(net, loss, optimizer, strategy=strategy, engine=engine, **options)
        expected = train(other, loss, right, batches)
        found = [step(*batch) for batch in batches]
        numpy.testing.assert_allclose(found, expected, rtol=1e-5)
        step.sync()
        self.assertLess(largest_difference(net.parameters(), other.parameters()), limit)
        return step, other

    def batches(self):
        torch.manual_seed(1)
        return [(torch.randn(n, 4), torch.randint(0, 3, (n,))) for n in (8, 8, 7, 1)]

    def test_is_chosen_when_telar_cannot(self):
        with self.assertWarnsRegex(UserWarning, "PyTorch computes the module, because Telar cannot: .*backward|export"):
            self.check(Net(), nn.CrossEntropyLoss(), self.batches(), engine="auto")

    def test_is_chosen_when_the_engine_refuses_the_graph(self):
        with unittest.mock.patch.object(tt.captures.Capture, "model", side_effect=telar.Error("the shapes do not fit")):
            with self.assertWarnsRegex(UserWarning, "because Telar cannot: the shapes do not fit"):
                self.check(nn.Linear(4, 3), nn.CrossEntropyLoss(), self.batches(), engine="auto")

    def test_workers_are_one(self):
        for strategy in ("mirrored", "sharded"):
            self.check(Net(), nn.CrossEntropyLoss(), self.batches(), strategy, 2e-5, replicas=2)

    def test_a_counter_of_all_workers_is_exact(self):
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)
                self.register_buffer("steps", torch.zeros(()))

            def forward(self, x):
                self.steps += 1
                return self.fc(x) * min(1.0, float(self.steps) / 10)

        for reduction in ("mean", "sum"):
            net = Counted()
            step = tt.Step(net, nn.CrossEntropyLoss(reduction=reduction), torch.optim.SGD(net.parameters(), 0.01), engine="torch", strategy="mirrored",
                           replicas=3)
            for _ in range(20):
                step(torch.randn(6, 4), torch.randint(0, 3, (6,)))
            self.assertEqual(float(net.steps), 20)

    def test_a_sum_is_not_a_mean(self):
        loss = nn.CrossEntropyLoss(reduction="sum")
        self.check(Net(), loss, self.batches(), "mirrored", 2e-5, replicas=3)

    def test_a_loss_over_pairs_is_for_one_worker(self):
        def loss(module, x, y):
            z = module(x)
            return F.cross_entropy(z @ z.T, torch.arange(len(x)))

        self.check(Net(), loss, self.batches())
        with self.assertWarnsRegex(UserWarning, "one worker computes the whole batches.*: the loss .* neither the mean nor the sum"):
            self.check(Net(), loss, self.batches(), "mirrored", engine="auto", replicas=2)
        net = Net()
        with self.assertRaisesRegex(telar.Error, "neither the mean nor the sum.*choose the strategy single"):
            tt.fit(net, loss, torch.optim.SGD(net.parameters(), 0.1), self.batches(), strategy="sync_ps", workers=2, engine="torch", progress=False)

    def test_what_depends_on_its_place_in_the_batch_is_for_one_worker(self):
        """In value, or only in the gradient; at the first batch, or at one of another size."""
        places = {
            "the first ones": lambda h: torch.cat([h[:2].detach(), h[2:]]), "the last one": lambda h: torch.cat([h[:-1], h[-1:].detach()]),
            "each third": lambda h: torch.where((torch.arange(len(h)) % 3 == 0)[:, None], h.detach(), h), "beside the first": lambda h: h - 0.01 * h[0],
            "rolled": lambda h: h + 1e-3 * h.roll(1, 0), "sorted": lambda h: h.sort(0)[0], "gradient of the mean": lambda h: h + h.mean(0) - h.mean(0).detach(),
            "many": lambda h: h if len(h) > 4 else 2 * h,
        }

        class Placed(Net):
            def forward(self, x):
                return places[self.name](super().forward(x))

        for name in places:
            for options in ({"replicas": 2}, {"replicas": 3}):
                net = Placed(nn.Linear(4, 4), nn.Tanh())
                net.name = name
                with self.subTest(name), self.assertWarnsRegex(UserWarning, "one worker computes the whole batches"):
                    self.check(net, nn.CrossEntropyLoss(), self.batches(), "mirrored", 2e-5, **options)
        net = Placed(nn.Linear(4, 4), nn.Tanh())
        net.name = "many"
        batches = [(torch.randn(n, 4), torch.randint(0, 3, (n,))) for n in (16, 16, 16, 6)]
        with self.assertRaisesRegex(telar.Error, "choose the strategy single"):
            self.check(net, nn.CrossEntropyLoss(), batches, "mirrored", replicas=2)

    def test_predictions_are_no_batches_with_labels(self):
        net = Net()
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), strategy="mirrored", replicas=2, engine="torch")
        x, y = self.batches()[0]
        step(x, y)
        for _ in range(3):
            self.assertLess(largest_difference([step.predict(x)], [net(x)]), 1e-5)

    def test_a_penalty_of_the_gradient(self):
        def loss(net, x, y):
            x = x.detach().requires_grad_()
            scores = net(x)
            slope, = torch.autograd.grad(scores.sum(), x, create_graph=True)
            return F.cross_entropy(scores, y) + 0.1 * slope.square().sum(1).mean()

        for options in ({}, {"strategy": "mirrored", "replicas": 2}, {"strategy": "sharded", "replicas": 3}):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.check(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), loss, self.batches(), limit=2e-5, engine="auto", **options)
            self.assertFalse(any("one worker" in str(each.message) for each in told))

    def test_criteria_of_the_user(self):
        """Of (prediction, target), whatever further arguments they have."""
        from torchvision.ops import sigmoid_focal_loss

        def focal(prediction, target, gamma=2.0):
            each = F.cross_entropy(prediction, target, reduction="none")
            return ((1 - torch.exp(-each)) ** gamma * each).mean()

        class Weighted:
            def __call__(self, prediction, target):
                return F.cross_entropy(prediction, target, torch.tensor([1.0, 2.0, 3.0]))

        for loss, labels in ((focal, None), (functools.partial(focal, gamma=1.0), None), (Weighted(), None),
                             (lambda prediction, target, scale=2.0, shift=0.0: scale * F.cross_entropy(prediction, target) + shift, None),
                             (functools.partial(F.cross_entropy, label_smoothing=0.1), None),
                             (functools.partial(sigmoid_focal_loss, reduction="mean"), 3)):
            batches = [(x, F.one_hot(y, labels).float() if labels else y) for x, y in self.batches()]
            net, other = nn.Linear(4, 3), nn.Linear(4, 3)
            other.load_state_dict(net.state_dict())
            expected = train(other, lambda net, x, y: loss(net(x), y), torch.optim.AdamW(other.parameters(), 0.01), batches)
            step = tt.Step(net, loss, torch.optim.AdamW(net.parameters(), 0.01), engine="telar")
            numpy.testing.assert_allclose([step(*batch) for batch in batches], expected, rtol=1e-5)

    def test_a_straight_through_estimator(self):
        class Rounded(nn.Sequential):
            def forward(self, x):
                z = self[0](x)
                return self[1](z + (z.round() - z).detach())

        for options in ({}, {"strategy": "mirrored", "replicas": 2}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.check(Rounded(nn.Linear(4, 5), nn.Linear(5, 3)), nn.CrossEntropyLoss(), self.batches(), limit=2e-5, engine="auto", **options)

    def test_a_loop_that_makes_the_optimizers_step_again(self):
        for engine in ("telar", "torch", "auto"):
            net = nn.Linear(4, 3)
            optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9) if engine != "auto" else torch.optim.NAdam(net.parameters())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step = tt.Step(net, nn.CrossEntropyLoss(), optimizer, engine=engine)
                step(*self.batches()[0])
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            with self.assertRaisesRegex(telar.Error, "step was made by telar.torch.Step.*update=False"):
                optimizer.step()
            net(torch.ones(1, 4)).sum().backward()
            optimizer.step()  # of a gradient of its own
            with self.assertWarnsRegex(UserWarning, "zero_grad.*update=False"):
                step(*self.batches()[1])

    def test_labels_that_are_ignored_later(self):
        batches = self.batches()
        batches[1][1][:5] = -100
        batches[2][1][-3:] = -100
        for options in ({}, {"strategy": "mirrored", "replicas": 2}, {"strategy": "sharded", "replicas": 3}):
            self.check(Net(), nn.CrossEntropyLoss(), batches, limit=2e-5, **options)

    def test_classes_with_weights(self):
        for loss in (nn.CrossEntropyLoss(torch.tensor([0.2, 1.0, 3.0]), label_smoothing=0.1),
                     lambda net, x, y: F.nll_loss(F.log_softmax(net(x), 1), y, torch.tensor([0.2, 1.0, 3.0])) + net(x).square().mean()):
            self.check(Net(), loss, self.batches(), "mirrored", 2e-5, replicas=2)

    def test_a_cross_entropy_that_only_some_workers_have(self):
        def loss(net, x, y):
            return F.cross_entropy(net(x), y) if float(x[0, 0]) < 10 else net(x).mean()

        batches = [self.batches()[i] for i in (0, 1, 0)]
        batches[2][0][0, 0] = 20
        with self.assertRaisesRegex(telar.Error, "has not computed a cross-entropy that another one has"):
            self.check(Net(), loss, batches, "mirrored", replicas=2)

    def test_running_statistics(self):
        step, other = self.check(Net(nn.BatchNorm1d(4)), nn.CrossEntropyLoss(), self.batches()[:3])
        self.assertLess(largest_difference(step.model.buffers(), other.buffers()), 1e-6)

    def test_a_batch_norm_has_the_whole_batch(self):
        for net in (Net(nn.BatchNorm1d(4)), Net(nn.BatchNorm1d(4, track_running_stats=False), nn.Dropout(0.0))):
            with self.assertWarnsRegex(UserWarning, 'one worker computes the whole batches'):
                step, other = self.check(net, nn.CrossEntropyLoss(), self.batches()[:3], "mirrored", replicas=2)
            self.assertLess(largest_difference(step.model.state_dict().values(), other.state_dict().values()), 1e-6)

    def test_running_statistics_of_workers_are_their_mean(self):
        net = nn.Sequential(nn.BatchNorm1d(4, momentum=1.0), nn.Linear(4, 3))
        x, y = self.batches()[0]
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), strategy="mirrored", replicas=2,
                       engine="torch", batch_norm="local")
        step(x, y)
        step.sync()
        expected = (x[:4].var(0) + x[4:].var(0)) / 2
        self.assertLess(largest_difference([net[0].running_var], [expected]), 1e-6)
        self.assertEqual(int(net[0].num_batches_tracked), 1)

    def test_evaluates_and_predicts(self):
        step, other = self.check(Net(nn.Dropout(0.0)), nn.CrossEntropyLoss(), self.batches(), "mirrored", 2e-5, replicas=2)
        x, y = self.batches()[2]
        other.eval()
        with torch.no_grad():
            self.assertLess(largest_difference([step.predict(x)], [other(x)]), 1e-4)
            self.assertAlmostEqual(step.evaluate(x, y), float(F.cross_entropy(other(x), y)), places=4)

    def test_goes_on_with_the_optimizers_state(self):
        step, other = self.check(Net(), nn.CrossEntropyLoss(), self.batches(), "mirrored", 2e-5, replicas=2)
        batch = self.batches()[:1]
        train(step.model, nn.CrossEntropyLoss(), step.optimizer, batch)
        right = tt.Step(other, nn.CrossEntropyLoss(), torch.optim.AdamW(other.parameters(), 0.01), engine="torch")
        del right
        self.assertEqual({int(state["step"]) for state in step.optimizer.state.values()}, {5})

    def test_an_error_in_the_module_ends_the_step(self):
        class Failing(Net):
            def forward(self, x):
                if len(x) == 3:
                    raise ValueError("three samples")
                return super().forward(x)

        net = Failing()
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), strategy="mirrored", replicas=2,
                       engine="torch")
        x, y = self.batches()[0]
        step(x, y)
        with self.assertRaisesRegex(ValueError, "three samples"):
            step(x[:7], y[:7])

    def test_layers_cannot_be_divided(self):
        net = Net()
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), strategy="pipeline", stages=2,
                       engine="torch")
        with self.assertRaisesRegex(telar.Error, "pipeline divides the layers"):
            step(*self.batches()[0])

    def test_what_a_file_cannot_have(self):
        step, _ = self.check(Net(), nn.CrossEntropyLoss(), self.batches())
        with self.assertRaisesRegex(telar.Error, "torch.save"):
            step.save("/nowhere/m.telar")


class Counted(unittest.TestCase):
    """Losses that are divided by a number which depends on the whole batch."""

    STRATEGIES = (("single", {}), ("mirrored", {"replicas": 2}), ("sharded", {"replicas": 3}),
                  ("hybrid", {"data": 2, "model": 1, "stages": 2, "batch_norm": "local"}))

    def batches(self, sizes=(8, 7, 1, 8), ignored=-100, first=True):
        torch.manual_seed(3)
        found = []
        for i, n in enumerate(sizes):
            x, y = torch.randn(n, 4), torch.randint(0, 3, (n,))
            if ignored is not None and (first or i):
                y[:n // 2] = ignored
                y[-1] = 2
            found.append((x, y))
        return found

    def check(self, loss, batches, net=lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), strategies=STRATEGIES,
              **options):
        for strategy, given in strategies:
            with self.subTest(strategy):
                torch.manual_seed(0)
                module = net()
                other = copy.deepcopy(module)
                step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1, momentum=0.9), strategy=strategy,
                               engine="telar", **given, **options)
                found = [step(*batch) for batch in batches]
                right = train(other, loss, torch.optim.SGD(other.parameters(), 0.1, momentum=0.9), batches)
                numpy.testing.assert_allclose(found, right, rtol=1e-5)
                step.sync()
                self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-5)
                other.eval()
                with torch.no_grad():
                    expected = float(loss_of(other, loss, batches[0]))
                self.assertAlmostEqual(step.evaluate(*batches[0]), expected, places=4)

    def test_ignored_labels(self):
        self.check(nn.CrossEntropyLoss(), self.batches())
        self.check(nn.CrossEntropyLoss(ignore_index=1, label_smoothing=0.2), self.batches(ignored=1))

    def test_ignored_labels_after_the_first_batch(self):
        self.check(nn.CrossEntropyLoss(), self.batches(sizes=(8, 6, 3), first=False))

    def test_weights_of_classes(self):
        for reduction in ("mean", "sum"):
            for smoothing in (0.0, 0.1):
                self.check(nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 3.0]), reduction=reduction, label_smoothing=smoothing),
                           self.batches())

    def test_probabilities_of_classes(self):
        for reduction in ("mean", "sum"):
            for smoothing, weight in ((0.0, None), (0.1, torch.tensor([0.2, 1.0, 3.0]))):
                self.check(nn.CrossEntropyLoss(weight=weight, reduction=reduction, label_smoothing=smoothing),
                           [(x, torch.softmax(torch.randn(len(x), 3), 1)) for x, _ in self.batches()])
        self.check(nn.CrossEntropyLoss(), [(torch.randn(n, 4, 5), torch.softmax(torch.randn(n, 3, 5), 1)) for n in (6, 4)],
                   lambda: nn.Conv1d(4, 3, 1), self.STRATEGIES[:2])

    def test_negative_likelihood_with_weights(self):
        net = lambda: nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1))
        self.check(nn.NLLLoss(weight=torch.tensor([0.2, 1.0, 3.0])), self.batches(), net, self.STRATEGIES[:3])

    def test_sum_divided_by_the_labels_that_count(self):
        def loss(net, x, y):
            return F.cross_entropy(net(x), y, reduction="sum") / (y != -100).sum()

        self.check(loss, self.batches())

    def test_losses_of_samples_and_a_mask(self):
        def loss(net, x, y):
            mask = (y != 0).float()
            losses = F.cross_entropy(net(x), y, reduction="none")
            return (losses * mask).sum() / mask.sum().clamp(min=1) + 0.1 * net(x).square().mean()

        self.check(loss, self.batches(ignored=None), strategies=self.STRATEGIES[:3])

    def test_masked_means_of_other_forms(self):
        def weighted(net, x, mask):
            return (net(x).square().mean(-1) * (mask / mask.sum())).sum()

        def ratio_of_means(net, x, mask):
            return (net(x).square() * mask[:, None]).mean() / mask.mean()

        def times_inverse(net, x, mask):
            return (net(x).square().sum(1) * mask).sum() * (1 / (mask.sum() + 1e-3))

        def two_terms(net, x, mask):
            out = net(x)
            return ((out[:, 0].square() * mask).sum() + 3 * (out[:, 1].abs() * mask).sum()) / mask.sum()

        batches = [(x, torch.rand(len(x))) for x, _ in self.batches()]
        for loss in (weighted, ratio_of_means, times_inverse, two_terms):
            self.check(loss, batches)

    def test_binary_cross_entropy(self):
        batches = [(x, torch.randint(0, 2, (len(x), 3)).float()) for x, _ in self.batches()]
        weights = {"weight": torch.tensor([0.5, 1.0, 2.0]), "pos_weight": torch.tensor([3.0, 1.0, 0.2])}
        for reduction in ("mean", "sum"):
            self.check(nn.BCEWithLogitsLoss(reduction=reduction, **weights), batches)
        self.check(nn.BCELoss(), batches, lambda: nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), self.STRATEGIES[:3])

    def test_binary_cross_entropy_over_a_mask(self):
        def loss(net, x, y, mask):
            losses = F.binary_cross_entropy_with_logits(net(x), y, weight=mask, reduction="sum")
            return losses / mask.sum()

        batches = [(x, torch.randint(0, 2, (len(x), 3)).float(), torch.rand(len(x), 3)) for x, _ in self.batches()]
        self.check(loss, batches)

    def language(self, ignored, sizes=(6, 5, 1)):
        torch.manual_seed(2)
        found = []
        for n in sizes:
            tokens = torch.randint(0, 11, (n, 7))
            labels = tokens.clone()
            labels[:, -2:] = ignored
            labels[0, 1:4] = ignored
            found.append((tokens, labels))
        return found

    def language_net(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.e, self.rnn, self.out = nn.Embedding(11, 6), nn.GRU(6, 5, batch_first=True), nn.Linear(5, 11)

            def forward(self, tokens):
                return self.out(self.rnn(self.e(tokens))[0])

        return Net()

    def test_tokens_that_are_ignored(self):
        def flat(net, x, y):
            return F.cross_entropy(net(x).view(-1, 11), y.view(-1), ignore_index=-1)

        def classes_second(net, x, y):
            return F.cross_entropy(net(x).transpose(1, 2), y, ignore_index=-1, weight=torch.linspace(0.5, 2, 11))

        def shifted(net, x, y):
            y = F.pad(y, (0, 1), value=-1)[:, 1:].contiguous()
            return F.cross_entropy(net(x).view(-1, 11), y.view(-1), ignore_index=-1)

        def masked(net, x, y):
            losses = F.cross_entropy(net(x).view(-1, 11), y.clamp(min=0).view(-1), reduction="none")
            mask = (y >= 0).view(-1)
            return (losses * mask).sum() / mask.sum()

        def without_cells():  # whose steps PyTorch takes seconds to write down
            return nn.Sequential(nn.Embedding(11, 6), nn.Tanh(), nn.Linear(6, 11))

        for loss, net in ((flat, self.language_net), (classes_second, without_cells), (shifted, without_cells),
                          (masked, without_cells)):
            with self.subTest(loss.__name__):
                self.check(loss, self.language(-1), net)

    def test_under_a_pipeline_and_divided_layers(self):
        def flat(net, x, y):
            return F.cross_entropy(net(x).view(-1, 11), y.view(-1), ignore_index=-1)

        net = lambda: nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 11))
        self.check(flat, self.language(-1), net, [("pipeline", {"stages": 2})])
        self.check(nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 3.0])), self.batches(), strategies=[("tensor", {"ways": 2, "split": ["*=columns"]})])

    def test_all_labels_are_ignored(self):
        module = nn.Linear(4, 3)
        step = tt.Step(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), engine="telar")
        step(*self.batches()[0])
        with self.assertRaisesRegex(telar.Error, "not finite"):
            step(torch.randn(4, 4), torch.full((4,), -100))

    def test_with_servers(self):
        batches = self.batches(first=False)
        module = nn.Linear(4, 3)
        other = copy.deepcopy(module)
        tt.fit(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), batches, progress=False, engine="telar",
               strategy="sync_ps", workers=2)
        train(other, nn.CrossEntropyLoss(), torch.optim.SGD(other.parameters(), 0.1), batches)
        self.assertLess(largest_difference(module.parameters(), other.parameters()), 1e-5)

    def test_sums_with_statistics(self):
        net = lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        loss = nn.CrossEntropyLoss(reduction="sum")
        for strategy, options in self.STRATEGIES[:2]:
            torch.manual_seed(0)
            module = net()
            other = copy.deepcopy(module)
            step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.01), strategy=strategy, engine="telar", **options)
            batches = self.batches(sizes=(8, 6), ignored=None)
            for batch in batches:
                step(*batch)
            train(other, loss, torch.optim.SGD(other.parameters(), 0.01), batches)
            step.sync()
            self.assertLess(largest_difference(module.state_dict().values(), other.state_dict().values()), 1e-5)

    def test_denominators_of_the_module_are_refused(self):
        def loss(net, x, y):
            out = net(x)
            return out.square().sum() / out.abs().sum()

        module = nn.Linear(4, 3)
        with self.assertRaisesRegex(telar.Error, "divides by a sum over the samples"):
            tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1), engine="telar")(*self.batches()[0])

    def test_masks_that_change(self):
        def loss(net, x, mask):
            mask = mask.clone()
            total = mask.mul_(2).sum()
            mask.add_(1)
            return (net(x).square().sum(1) * mask).sum() / total

        module, batch = nn.Linear(4, 3), (torch.randn(6, 4), torch.rand(6))
        right = float(loss(module, *batch).detach())
        step = tt.Step(module, loss, torch.optim.SGD(module.parameters(), 0.1), engine="telar", strategy="mirrored", replicas=2)
        self.assertAlmostEqual(step(*batch), right, places=5)

    def test_no_file(self):
        module = nn.Linear(4, 3)
        step = tt.Step(module, nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), 0.1), engine="telar")
        step(*self.batches()[0])
        with self.assertRaisesRegex(telar.Error, "weights of labels"):
            step.save("/nowhere/m.telar")


class Exports(unittest.TestCase):
    """PyTorch's export takes most of a capture's time, and evaluation needs one of its own only where it may differ."""

    def exports(self, net):
        def counted(*arguments):
            calls.append(arguments)
            return export(*arguments)

        from telar.torch import capture
        calls, export = [], capture.export
        with unittest.mock.patch.object(capture, "export", counted):
            step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
            step(torch.randn(4, 6), torch.tensor([0, 1, 2, 0]))
        self.assertNotIn("training", vars(nn.Module))
        return len(calls)

    def test_of_what_reads_no_mode_there_is_one(self):
        self.assertEqual(self.exports(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))), 1)

    def test_of_what_may_differ_in_evaluation_there_are_two(self):
        class Branch(nn.Linear):
            def forward(self, x):
                return super().forward(x) * (2 if self.training else 1)

        class Switched(nn.Linear):
            doubled = True

            def train(self, mode=True):
                self.doubled = mode
                return super().train(mode)

            def forward(self, x):
                return super().forward(x) * (2 if self.doubled else 1)

        class Own(Branch):
            training = property(lambda self: vars(self)["mode"], lambda self, mode: vars(self).update(mode=mode))

        class Inherited(Own):
            pass

        class Reading(Branch):
            def __getattribute__(self, name):
                return vars(self)[name] if name == "training" else super().__getattribute__(name)

        def train(self, mode=True):
            self.doubled = mode
            return nn.Module.train(self, mode)

        switched = nn.Linear(6, 3)
        switched.train = types.MethodType(train, switched)
        switched.doubled = True
        for net in (nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)), Branch(6, 3), Inherited(6, 3), Reading(6, 3),
                    switched, Switched(6, 3)):
            self.assertEqual(self.exports(net), 2, type(net).__name__)
        for net in (switched, net):
            self.assertTrue(net.doubled, "a module whose train() does more was left in another mode")

    def test_of_an_exported_module_there_is_one_program(self):
        net = torch.export.export(nn.Linear(6, 3), (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim("n")},)).module()
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.0))
        batch = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
        self.assertAlmostEqual(step(*batch), step.evaluate(*batch), places=6)


class Constructs(unittest.TestCase):
    """Those of torch_constructs.py: each trains as by PyTorch, or is refused by its own name."""

    def check(self, construct, **options):
        """The error, or None; whether PyTorch computed the module."""
        right, expected = construct(lambda *arguments, check=True: eager_step(*arguments))
        steps = []

        def make(*arguments, **further):
            steps.append(tt.Step(*arguments, **options, **further))
            return steps[-1]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                net, losses = construct(make)
            except telar.Error as error:
                return str(error), None
        numpy.testing.assert_allclose(losses, expected, rtol=2e-5, atol=1e-6)
        for (name, found), other in zip(net.state_dict().items(), right.state_dict().values()):
            self.assertLess(largest_difference([found], [other]), 1e-7 if "num_batches" in name else 3e-5, name)
        return None, any(step._own or step._external for step in steps)

    def test_alone(self):
        for name, construct in CONSTRUCTS.items():
            with self.subTest(name):
                error, by_pytorch = self.check(construct)
                if construct.refused:
                    self.assertRegex(str(error), construct.refused)
                else:
                    self.assertIsNone(error)
                    self.assertEqual("torch" if by_pytorch else "telar", construct.engine)

    def test_with_replicas(self):
        for name, construct in CONSTRUCTS.items():
            if construct.by_share:
                continue
            with self.subTest(name):
                error, _ = self.check(construct, strategy="mirrored", replicas=2)
                if not construct.refused:
                    self.assertIsNone(error)


class Reads(unittest.TestCase):
    """Whoever reads the module or the optimizer after a step finds the values of that step."""

    STRATEGIES = (("single", {}), ("mirrored", {"replicas": 2}), ("sharded", {"replicas": 2}), ("pipeline", {"stages": 2}),
                  ("tensor", {"ways": 2, "split": ["*=columns"]}))
    X = torch.ones(3, 4)

    def flat(self, tensors):
        return torch.cat([tensor.detach().flatten().float() for tensor in tensors])

    def of_file(self, thing):
        file = io.BytesIO()
        torch.save(thing, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    READS = {
        "forward": lambda self, net, optimizer, kept: net(self.X), "forward of a layer": lambda self, net, optimizer, kept: net[0](self.X),
        "compiled forward": lambda self, net, optimizer, kept: kept["compiled"](self.X),
        "state_dict": lambda self, net, optimizer, kept: self.flat(net.state_dict().values()),
        "parameters": lambda self, net, optimizer, kept: self.flat(net.parameters()),
        "buffers": lambda self, net, optimizer, kept: self.flat(net.buffers()),
        "an attribute": lambda self, net, optimizer, kept: net[3].bias + 0,
        "deepcopy": lambda self, net, optimizer, kept: self.flat(copy.deepcopy(net).state_dict().values()),
        "pickle": lambda self, net, optimizer, kept: self.flat(pickle.loads(pickle.dumps(net)).state_dict().values()),
        "torch.save": lambda self, net, optimizer, kept: self.flat(self.of_file(net).state_dict().values()),
        "kept references": lambda self, net, optimizer, kept: self.flat(kept["parameters"]),
        "norm of kept references": lambda self, net, optimizer, kept: torch.stack(torch._foreach_norm(kept["parameters"])),
        "numpy": lambda self, net, optimizer, kept: torch.from_numpy(net[0].weight.detach().numpy().copy()),
        "state_dict of the optimizer": lambda self, net, optimizer, kept: self.flat(
            state[key] for state in optimizer.state_dict()["state"].values() for key in sorted(state)),
        "state of the optimizer": lambda self, net, optimizer, kept: optimizer.state[net[0].weight]["exp_avg"] + 0,
        "deepcopy of the optimizer": lambda self, net, optimizer, kept: self.flat(
            state["exp_avg_sq"] for state in copy.deepcopy(optimizer).state.values()),
    }

    def pair(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))
        return net, torch.optim.Adam(net.parameters(), 0.01, eps=1e-2)

    def batch(self):
        return torch.randn(6, 4), torch.randint(0, 3, (6,))

    def test_each_way_under_each_strategy(self):
        for strategy, options in self.STRATEGIES:
            sides = [self.pair() for _ in range(2)]
            step = tt.Step(sides[0][0], nn.CrossEntropyLoss(), sides[0][1], strategy=strategy, engine="telar", threads=2, **options)
            right = eager_step(sides[1][0], nn.CrossEntropyLoss(), sides[1][1])
            kept = [{"parameters": list(net.parameters()), "compiled": torch.compile(net, backend="eager")} for net, _ in sides]
            for name, read in self.READS.items():
                if name == "compiled forward" and strategy != "single":  # PyTorch takes a second for each module
                    continue
                with self.subTest(strategy=strategy, read=name):
                    batch = self.batch()
                    self.assertAlmostEqual(step(*batch), right(*batch), places=4)
                    found, expected = (read(self, net, optimizer, held) for (net, optimizer), held in zip(sides, kept))
                    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-4)
                    self.assertIs(type(sides[0][0][0].weight if "optimizer" not in name else nn.Parameter(torch.zeros(1))), nn.Parameter)

    def test_what_reads_memory_otherwise(self):
        for options in ({"follow": "every step"}, {"follow": "reads"}):
            net, optimizer = self.pair()
            kept = net[0].weight.detach().numpy(), net.state_dict() if options["follow"] == "reads" else None
            step = tt.Step(net, nn.CrossEntropyLoss(), optimizer, engine="telar", **options)
            for _ in range(3):
                step(*self.batch())
                numpy.testing.assert_array_equal(kept[0], step.values()["0.weight"])
                numpy.testing.assert_array_equal(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(net[1].running_mean)),
                                                 step._session.read_state("1.running_mean"))
        with self.assertRaisesRegex(telar.Error, "must be 'reads' or 'every step'"):
            tt.Step(net, nn.CrossEntropyLoss(), optimizer, follow="never")

    def test_nobody_holds_what_nobody_uses(self):
        net, optimizer = self.pair()
        step = tt.Step(net, nn.CrossEntropyLoss(), optimizer, engine="telar", check=False)
        for _ in range(2):
            step(*self.batch())
        gone = weakref.ref(step), weakref.ref(step._values), weakref.ref(net)
        del step, optimizer
        self.assertIsNone(gone[0]())
        self.assertIsNotNone(gone[1]())  # the module will be read
        before = net[0].weight.detach().clone()
        gc.collect()  # an optimizer is a cycle
        self.assertIsNone(gone[1]())
        self.assertTrue(bool(torch.isfinite(before).all()))
        del net
        self.assertIsNone(gone[2]())

    def test_a_read_while_servers_have_the_values(self):
        net, optimizer = self.pair()
        before = net[0].weight.detach().clone()

        class Reading(list):
            def __iter__(self):
                for batch in self[:]:
                    seen.append(net[0].weight.detach().clone())
                    yield batch

        seen = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tt.fit(net, nn.CrossEntropyLoss(), optimizer, Reading([self.batch()] * 3), progress=False, strategy="sync_ps", workers=2)
        self.assertEqual(sum("parameter servers have its values" in str(each.message) for each in caught), 1)
        self.assertEqual(largest_difference(seen, [before] * len(seen)), 0)
        self.assertGreater(largest_difference([net[0].weight], [before]), 0)

    def test_a_step_that_is_not_finite_leaves_the_last_values(self):
        net, optimizer = self.pair()
        step = tt.Step(net, nn.CrossEntropyLoss(), optimizer, engine="telar")
        step(*self.batch())
        before = net[0].weight.detach().clone()
        x, y = self.batch()
        with self.assertRaisesRegex(telar.Error, "not finite"):
            step(x * math.nan, y)
        self.assertEqual(largest_difference([net[0].weight], [before]), 0)
        step(x, y)
        self.assertTrue(math.isfinite(float(net[0].weight.detach().sum())))

    def test_workers_that_read_the_module_itself(self):
        net, optimizer = self.pair()
        step = tt.Step(net, lambda module, x, y: F.cross_entropy(module(x), y) + 0.1 * net[0].weight.square().sum(), optimizer,
                       engine="torch", strategy="mirrored", replicas=2, batch_norm="local")
        with self.assertRaisesRegex(telar.Error, "while workers compute with copies"):
            for _ in range(2):
                step(*self.batch())


class Batches(unittest.TestCase):
    """Batches of more than tensors, in all calls of a Step, and in fit."""

    def test_dicts_of_numpy_in_all_calls(self):
        for engine, options in (("telar", {}), ("telar", {"strategy": "mirrored", "replicas": 2}), ("torch", {})):
            with self.subTest(engine=engine, **options):
                net = Named()
                loss = lambda net, batch: net(**batch)["loss"]
                arrays = [{name: value if isinstance(value, bool) else value.numpy() for name, value in batch.items()} for batch in named()]
                step = tt.Step(net, loss, torch.optim.SGD(net.parameters(), 0.1), engine=engine, **options)
                for i in range(2):
                    step(arrays[i])
                last = named()[2]
                self.assertAlmostEqual(step.evaluate(arrays[2]), float(loss(net, last)), places=5)
                inputs = {name: last[name] for name in ("x", "z")}
                if engine == "torch":
                    with self.assertRaisesRegex(telar.Error, "call the module"):
                        step.predict(inputs)
                else:
                    torch.testing.assert_close(step.predict(inputs), net(**inputs)["logits"].detach(), rtol=1e-4, atol=1e-5)
                history = tt.fit(net, loss, torch.optim.SGD(net.parameters(), 0.0), arrays, validation=arrays, progress=False, engine=engine,
                                 **options)
                right = sum(float(loss(net, batch)) * len(batch["x"]) for batch in named()) / sum(len(batch["x"]) for batch in named())
                self.assertAlmostEqual(history[0]["loss"], right, places=5)
                self.assertAlmostEqual(history[0]["validation_loss"], right, places=5)

    def test_refusals(self):
        net = Named()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        step = tt.Step(net, lambda net, batch: net(**batch)["loss"], optimizer)
        step(named()[0])
        for call, reason in ((lambda: tt.Step(net, nn.CrossEntropyLoss(), optimizer)(named()[0]), "the last member of the batch is no tensor"),
                             (lambda: tt.Step(net, nn.CrossEntropyLoss(), optimizer)({"x": 3}, torch.zeros(2)), "not of int"),
                             (lambda: step.predict({"x": torch.ones(2, 4), "w": torch.ones(2)}), "the batches have no 0.w"),
                             (lambda: step.evaluate(torch.ones(2, 4)), "another structure")):
            with self.assertRaisesRegex(telar.Error, reason):
                call()


class LocalSgd(unittest.TestCase):
    """Replicas that train on their own, as modules that are averaged by hand."""

    def check(self, make, **options):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
        nets = [copy.deepcopy(net) for _ in range(2)]
        optimizers = [make(own) for own in nets]
        step = tt.Step(net, nn.CrossEntropyLoss(), make(net), strategy="local_sgd", replicas=2, average_every=3, **options)
        for number in range(1, 11):
            x, y = torch.randn(16, 20), torch.randint(0, 4, (16,))
            losses = [eager_step(own, nn.CrossEntropyLoss(), optimizer)(x[part], y[part])
                      for own, optimizer, part in zip(nets, optimizers, (slice(0, 8), slice(8, 16)))]
            self.assertAlmostEqual(step(x, y), sum(losses) / 2, places=5)
            for own in zip(*(own.parameters() for own in nets)) if number % 3 == 0 else ():
                mean = (own[0].data + own[1].data) / 2
                for parameter in own:
                    parameter.data.copy_(mean)
        step.sync()
        for found, a, b in zip(net.parameters(), *(own.parameters() for own in nets)):
            torch.testing.assert_close(found, (a + b) / 2, rtol=1e-5, atol=1e-6)

    def test_replicas_are_averaged(self):
        for engine in ("telar", "torch"):
            self.check(lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), engine=engine)
            self.check(lambda net: torch.optim.Adam(net.parameters(), 0.01), engine=engine)

    def test_each_needs_an_optimizer(self):
        with self.assertRaisesRegex(telar.Error, "each replica of local_sgd needs its own"):
            self.check(lambda net: torch.optim.NAdam(net.parameters(), 0.01))


GLOBAL_CALLS = 0


class Hostile(unittest.TestCase):
    """What is right, or refused with its reason."""

    def net(self, forward, layers=lambda: {"fc": nn.Linear(4, 3)}):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                for name, layer in layers().items():
                    setattr(self, name, layer)

        torch.manual_seed(0)
        Net.forward = forward
        return Net()

    def run_step(self, forward, loss=None, layers=lambda: {"fc": nn.Linear(4, 3)}, batch=None, optimizer=None, **options):
        net = self.net(forward, layers)
        batch = batch or (torch.randn(6, 4), torch.randint(0, 3, (6,)))
        optimizer = optimizer(net) if optimizer else torch.optim.SGD(net.parameters(), 0.1)
        return tt.Step(net, loss or nn.CrossEntropyLoss(), optimizer, **{"engine": "telar", **options})(*batch)

    def assert_refused(self, reason, *arguments, **options):
        with self.assertRaisesRegex(telar.Error, reason):
            self.run_step(*arguments, **options)

    def test_own_backward(self):
        self.assert_refused("backward function of its own|export", lambda self, x: Twice.apply(self.fc(x)))

    def test_tensor_hook(self):
        def forward(self, x):
            y = self.fc(x)
            if y.requires_grad:
                y.register_hook(lambda gradient: 3 * gradient)
            return y

        self.assert_refused("gradient of the first batch differs|export", forward)

    def test_buffers_changed_in_place_are_followed(self):
        for engine, strategy in (("telar", "single"), ("telar", "mirrored"), ("torch", "single")):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
            model.register_buffer("mask", torch.rand(16))
            model.register_buffer("scale", torch.tensor(1.0))
            model.forward = types.MethodType(lambda self, x: self[2](self[1](self[0](x)) * self.mask) * self.scale, model)
            beside = copy.deepcopy(model)
            beside.forward = types.MethodType(model.forward.__func__, beside)
            step = tt.Step(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.5), engine=engine, strategy=strategy)
            optimizer = torch.optim.SGD(beside.parameters(), lr=0.5)
            for i in range(9):
                for one in (model, beside):
                    if i == 2:
                        one.mask[::2] = 0
                    if i == 4:
                        one.mask[:2] = one.mask[:2].flip(0)  # the same sum
                    if i in (5, 7):
                        one.scale.fill_(0.5 if i == 5 else 1.0)
                x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
                optimizer.zero_grad()
                loss = F.cross_entropy(beside(x), y)
                loss.backward()
                optimizer.step()
                self.assertAlmostEqual(float(step(x, y)), loss.item(), places=5, msg=f"{engine}, {strategy}, step {i}")

    def test_counter_in_python(self):
        def forward(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            return self.fc(x) * self.calls

        self.assert_refused("each call changes the attribute 'calls'", forward)

    def test_mean_of_the_batch_inside(self):
        def forward(self, x):
            y = self.fc(x)
            return y - y.mean(0)

        self.assert_refused("samples", forward)

    def test_contrastive_loss(self):
        def loss(net, x, y):
            z = F.normalize(net(x), dim=1)
            return F.cross_entropy(z @ z.T, torch.arange(len(x)))

        self.assert_refused("samples|batch", lambda self, x: self.fc(x), loss)

    def test_logarithm_of_the_mean(self):
        self.assert_refused("not one", lambda self, x: self.fc(x), lambda net, x, y: F.cross_entropy(net(x), y).log())

    def test_product_of_means(self):
        def loss(net, x, y):
            return F.cross_entropy(net(x), y) * net(x).mean()

        self.assert_refused("not one", lambda self, x: self.fc(x), loss)

    def test_loss_of_each_sample(self):
        self.assert_refused("each sample", lambda self, x: self.fc(x), lambda net, x, y: net(x).square().sum(1))

    def test_penalty_on_parameters_is_right(self):
        def loss(net, x, y):
            return F.cross_entropy(net(x), y) + 0.01 * sum(p.square().sum() for p in net.parameters())

        self.run_step(lambda self, x: self.fc(x), loss)

    def test_sum_over_samples_is_right(self):
        self.run_step(lambda self, x: self.fc(x), nn.CrossEntropyLoss(reduction="sum"))

    def test_mean_by_hand_is_right(self):
        self.run_step(lambda self, x: self.fc(x), lambda net, x, y: F.cross_entropy(net(x), y, reduction="sum") / x.shape[0])

    def test_length_is_a_constant(self):
        self.assert_refused("number of samples for a constant, 6: .*x.shape", lambda self, x: self.fc(x),
                            lambda net, x, y: F.cross_entropy(net(x), y) * len(x))
        self.assert_refused("something else for other numbers of samples \\(4 <= ", lambda self, x: self.fc(x),
                            lambda net, x, y: F.cross_entropy(net(x), y) * (2 if x.shape[0] > 3 else 1))

    def test_own_functions_of_prediction_and_target(self):
        own = lambda prediction, target: F.cross_entropy(prediction, target)
        expected = self.run_step(lambda self, x: self.fc(x))
        for engine in ("telar", "torch"):
            self.assertAlmostEqual(self.run_step(lambda self, x: self.fc(x), own, engine=engine), expected, places=5)
        for loss in (lambda prediction: prediction.mean(), lambda a, b, c, d: a(b).mean()):
            for engine in ("telar", "auto"):
                self.assert_refused("takes neither \\(prediction, target\\) nor the module and the batch, which has 2 tensors",
                                    lambda self, x: self.fc(x), loss, engine=engine)

    def test_parameters_of_another_module(self):
        other = nn.Linear(4, 3)
        self.assert_refused("not one of the module", lambda self, x: self.fc(x), lambda net, x, y: F.mse_loss(net(x), other(x)))

    def test_parameters_of_the_loss(self):
        class Weighted(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.zeros(1))

            def forward(self, prediction, target):
                return F.mse_loss(prediction, target) * torch.exp(-self.scale).squeeze() + self.scale.squeeze()

        for engine in ("telar", "auto", "torch"):
            net, loss = self.net(lambda self, x: self.fc(x)), Weighted()
            step = tt.Step(net, loss, torch.optim.SGD([*net.parameters(), *loss.parameters()], 0.1), engine=engine)
            with self.assertRaisesRegex(telar.Error, "the optimizer trains 'scale' of the loss"):
                step(torch.randn(5, 4), torch.randn(5, 3))

    def test_weight_of_the_loss_that_changes(self):
        weight = [1.0]
        net = self.net(lambda self, x: self.fc(x))
        step = tt.Step(net, lambda net, x, y: weight[0] * F.cross_entropy(net(x), y), torch.optim.SGD(net.parameters(), 0.1))
        batch = (torch.randn(6, 4), torch.randint(0, 3, (6,)))
        step(*batch)
        step.sync()
        step(*batch)
        weight[0] = 0.5
        with self.assertRaisesRegex(telar.Error, r"mul \(.*check_torch.py.* takes 0.5 where it took 1.0"):
            step(*batch)

    def second_step(self, forward=lambda self, x: self.fc(x), loss=None, layers=lambda: {"fc": nn.Linear(4, 3)}, between=lambda net: None):
        net = self.net(forward, layers)
        step = tt.Step(net, loss or nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), engine="telar")
        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        step(*batch)
        between(net)
        step(*batch)
        return step

    def assert_second_is_refused(self, reason, **options):
        with self.assertRaisesRegex(telar.Error, reason):
            self.second_step(**options)

    def test_weight_that_changes_before_the_second_step(self):
        weights = {"now": 1.0}

        def loss(net, x, y):
            return F.cross_entropy(net(x), y) * weights["now"]

        self.assert_second_is_refused("mul .* takes 0.9 where it took 1.0", loss=loss, between=lambda net: weights.update(now=0.9))

    def test_dropout_that_changes(self):
        rates = [0.1]
        with self.assertRaisesRegex(telar.Error, "has changed since it was captured"):
            self.second_step(forward=lambda self, x: F.dropout(self.fc(x), rates[0]), between=lambda net: rates.append(rates.pop() + 0.4))

    def test_constant_tensor_that_changes(self):
        scales = [torch.ones(3)]
        self.assert_second_is_refused("has changed since it was captured", forward=lambda self, x: self.fc(x) * scales[0],
                                      between=lambda net: scales[0].mul_(2))

    def test_a_counter_that_changes_later(self):
        calls = {"count": 0}

        def forward(self, x):
            calls["count"] += 1
            return self.fc(x) * (1.0 if calls["count"] < 8 else 0.5)

        self.assert_refused("each call changes the attribute 'calls.count'", forward)

    def test_numbers_of_pythons_chance(self):
        self.assert_refused("Python's random", lambda self, x: self.fc(x) * (2.0 if random.random() < 0 else 1.0))
        self.assert_refused("Python's random", lambda self, x: self.fc(x) * (2.0 if numpy.random.rand() < 0 else 1.0))

    def test_tensors_that_a_module_keeps_are_right(self):
        def forward(self, x):
            if self.kept is None:
                self.kept = torch.arange(3).float()
                self.by_size["three"] = self.kept + 1
            self.last = self.by_size["last"] = self.fc(x) + self.kept + self.by_size["three"]
            return self.last

        net = self.net(forward, lambda: {"fc": nn.Linear(4, 3), "kept": None, "by_size": {}})
        other = copy.deepcopy(net)
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), engine="telar")
        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        found = [step(*batch) for _ in range(3)]
        self.assertIs(net.kept, None)  # no call has been made but Telar's own
        numpy.testing.assert_allclose(found, train(other, nn.CrossEntropyLoss(), torch.optim.SGD(other.parameters(), 0.1), [batch] * 3),
                                      rtol=1e-5)
        step.sync()
        self.assertLess(largest_difference([net(batch[0])], [other(batch[0])]), 1e-5)

    def test_what_is_kept_before_a_norm_is_found_by_its_statistics(self):
        def forward(self, x):
            before, self.mean = self.mean, self.fc(x).detach().mean(0)
            return self.norm(self.fc(x) if before is None else self.fc(x) + before)

        self.assert_refused("move the statistics to different values", forward, layers=lambda: {"fc": nn.Linear(4, 3), "norm": nn.BatchNorm1d(3), "mean": None})

    def test_what_cannot_be_put_back_is_refused_unless_pytorch_alone_computes(self):
        def trained(counted, **options):
            net = self.net(lambda self, x: self.fc(x) * min(1.0, next(counted) / 10), lambda: {"fc": nn.Linear(4, 3)})
            step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), **options)
            return [step(*batch) for _ in range(3)]

        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        for options in ({}, {"strategy": "mirrored", "replicas": 2}, {"strategy": "mirrored", "replicas": 2, "engine": "torch"}):
            with self.assertRaisesRegex(telar.Error, "cannot put it back"):
                trained(itertools.count(1), **options)
        self.assertEqual(trained(itertools.count(1), engine="torch"), trained(iter(range(1, 9)), engine="torch"))

    def test_what_forbids_that_it_is_written_is_put_back(self):
        class Frozen(type):
            def __setattr__(cls, name, value):
                raise TypeError(f"{name} is frozen")

        class Settings(metaclass=Frozen):
            calls = 0

        class Slotted:
            __slots__ = ("calls",)

            def __setattr__(self, name, value):
                raise AttributeError(f"{name} is frozen")

        slotted = Slotted()

        def forward(self, x):
            type.__setattr__(Settings, "calls", Settings.calls + 1)
            object.__setattr__(slotted, "calls", getattr(slotted, "calls", 0) + 1)
            return self.fc(x) * min(1.0, (Settings.calls + slotted.calls) / 20)

        net = self.net(forward, lambda: {"fc": nn.Linear(4, 3)})
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
        for _ in range(3):
            step(torch.randn(6, 4), torch.randint(0, 3, (6,)))
        self.assertEqual((Settings.calls, slotted.calls), (3, 3))

    def test_a_tensor_that_is_kept_and_read_is_found_where_it_is_0_at_first(self):
        def forward(self, x):
            before, self.mean = self.mean, F.relu(self.fc(x).detach() - 100).mean(0)
            return self.fc(x) if before is None else self.fc(x) + before

        self.assert_refused("differs between two calls", forward, layers=lambda: {"fc": nn.Linear(4, 3), "mean": None})

    def test_what_a_call_notes_is_noted_once_a_step(self):
        """Counters and lists, of the module, of an object, and global, of which a call depends or not."""

        class Noted:
            count = 0

        class Slotted:
            __slots__ = ("count",)

        class OfClass:
            count, kept = 0, []

        def of_slots(self, x):
            self.slotted.count = getattr(self.slotted, "count", 0) + 1
            return self.fc(x) * min(1.0, self.slotted.count / 10)

        def of_class(self, x):
            OfClass.count += 1
            return self.fc(x) * min(1.0, OfClass.count / 10)

        def list_of_class(self, x):
            OfClass.kept.append(1)
            return self.fc(x) * min(1.0, len(OfClass.kept) / 10)

        def of_default():
            def forward(self, x, calls=[0], *, noted={"calls": 0}):  # noqa: B006: what is tested
                calls[0] += 1
                noted["calls"] += 1
                return self.fc(x) * min(1.0, (calls[0] + noted["calls"]) / 20)

            return forward

        def of_function():
            def counting():
                counting.calls = getattr(counting, "calls", 0) + 1
                return counting.calls

            return lambda self, x: self.fc(x) * min(1.0, counting() / 10)

        def of_python_module():
            settings = types.ModuleType("settings")
            settings.calls = 0
            space = {"settings": settings}
            exec("def forward(self, x):\n    settings.calls += 1\n    return self.fc(x) * min(1.0, settings.calls / 10)", space)
            return space["forward"]

        def of_module(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            return self.fc(x)

        def list_of_module(self, x):
            self.kept.append(1)
            return self.fc(x) * min(1.0, len(self.kept) / 10)

        def of_object(self, x):
            self.noted.count += 1
            return self.fc(x) * min(1.0, self.noted.count / 10)

        def buffer(self, x):
            self.steps = self.steps + 1
            return self.fc(x) * torch.clamp(self.steps / 10, max=1.0)

        def tensor(self, x):
            self.mean, before = self.fc(x).detach().mean(), self.mean
            return self.fc(x) if before is None else self.fc(x) + before

        def global_variable(self, x):
            global GLOBAL_CALLS
            GLOBAL_CALLS += 1
            return self.fc(x) * min(1.0, GLOBAL_CALLS / 10)

        def closure():
            calls = 0

            def forward(self, x):
                nonlocal calls
                calls += 1
                return self.fc(x) * min(1.0, calls / 10)

            return forward

        def pythons_chance(self, x):
            return self.fc(x) * random.random()

        def loss_with_counter():
            calls = 0

            def loss(net, x, y):
                nonlocal calls
                calls += 1
                return F.cross_entropy(net(x), y) * min(1.0, calls / 10)

            return loss

        def layers():
            return {"fc": nn.Linear(4, 3), "kept": [], "noted": Noted(), "slotted": Slotted(), "mean": None}

        global GLOBAL_CALLS
        for make in (lambda: of_module, lambda: list_of_module, lambda: of_object, lambda: buffer, lambda: tensor, lambda: global_variable, closure,
                     lambda: pythons_chance, lambda: of_slots, lambda: of_class, lambda: list_of_class, of_default, of_function, of_python_module,
                     None):
            for engine, options in (("auto", {}), ("auto", {"strategy": "mirrored", "replicas": 2}), ("torch", {"strategy": "sharded", "replicas": 2})):
                results = []
                for is_telars in (False, True):
                    GLOBAL_CALLS = OfClass.count = 0
                    OfClass.kept.clear()
                    random.seed(1)
                    net = self.net(make() if make else lambda self, x: self.fc(x), layers)
                    net.register_buffer("steps", torch.zeros(()))
                    loss, optimizer = nn.CrossEntropyLoss() if make else loss_with_counter(), torch.optim.SGD(net.parameters(), 0.5)
                    torch.manual_seed(1)
                    batches = [(torch.randn(6, 4), torch.randint(0, 3, (6,))) for _ in range(9)]
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        step = tt.Step(net, loss, optimizer, engine=engine, **options) if is_telars else None
                        losses = [step(*batch) for batch in batches] if step else train(net, loss, optimizer, batches)
                    results.append([*losses, getattr(net, "calls", 0), net.noted.count, len(net.kept), float(net.steps), GLOBAL_CALLS, random.random()])
                numpy.testing.assert_allclose(*results, rtol=1e-5, err_msg=f"{engine} {options} {make and make().__name__}")

    def test_masks_of_the_batch_are_right_and_not_in_a_file(self):
        net = self.net(lambda self, x: self.fc(self.e(x).masked_fill((x == 0).unsqueeze(-1), 0.0).mean(1)),
                       lambda: {"e": nn.Embedding(9, 4), "fc": nn.Linear(4, 3)})
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), strategy="mirrored", replicas=2)
        for n in (6, 3):
            tokens, labels = torch.randint(0, 9, (n, 5)), torch.randint(0, 3, (n,))
            with torch.no_grad():
                step.sync()
                right = float(F.cross_entropy(net(tokens), labels))
            self.assertAlmostEqual(step(tokens, labels), right, places=5)
        with self.assertRaisesRegex(telar.Error, "PyTorch computes a part"):
            step.save("/nowhere/m.telar")

    def test_unknown_label(self):
        self.assert_refused("knows 0 to 2", lambda self, x: self.fc(x), batch=(torch.randn(3, 4), torch.tensor([0, 3, 2])))

    def test_state_that_changes_by_hand(self):
        def layers():
            fc = nn.Linear(4, 3)
            fc.register_buffer("centre", torch.zeros(4))
            return {"fc": fc}

        def read(self, x):
            self.fc.centre.add_(1.0)
            return self.fc(x - self.fc.centre)

        def unread(self, x):
            y = self.fc(x - self.fc.centre)
            self.fc.centre.mul_(0.9).add_(0.1)
            return y

        for forward in (read, unread):
            self.assert_refused("changes 'fc.centre' in place", forward, layers=layers)

    def test_statistics_of_what_the_loss_does_not_use(self):
        def forward(self, x):
            self.norm(x)
            return self.fc(x)

        net = self.net(forward, lambda: {"fc": nn.Linear(4, 3), "norm": nn.BatchNorm1d(4)})
        other, batch = copy.deepcopy(net), (torch.randn(6, 4) + 3, torch.randint(0, 3, (6,)))
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD([*net.fc.parameters()], 0.1), engine="telar")
        step(*batch)
        step.sync()
        other(batch[0])
        self.assertLess(largest_difference([net.norm.running_mean, net.norm.running_var],
                                           [other.norm.running_mean, other.norm.running_var]), 1e-6)

    def test_a_number_of_the_batch_added_to_each_sample(self):
        def forward(self, x):
            y = self.fc(x)
            return y + y.mean()

        self.assert_refused("a sample depends on others", forward)

    def test_padding_of_a_tied_table(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.out = nn.Embedding(6, 4, padding_idx=0), nn.Linear(4, 6)
                self.out.weight = self.words.weight

            def forward(self, x):
                return self.out(torch.tanh(self.words(x)))

        torch.manual_seed(0)
        net = Tied()
        exact = copy.deepcopy(net).double()
        loss = lambda module, x, y: F.cross_entropy(module(x).transpose(1, 2), y)
        batches = [(torch.randint(0, 3, (n, 5)), torch.randint(0, 6, (n, 5))) for n in (4, 3, 4)]
        step = tt.Step(net, loss, torch.optim.SGD(net.parameters(), 0.5), engine="telar")
        found = [step(*batch) for batch in batches]
        for a, b in zip(found, train(exact, loss, torch.optim.SGD(exact.parameters(), 0.5), batches)):
            self.assertLess(abs(a - b), 1e-5)

    def test_uniform_numbers(self):
        """Stochastic depth: the draws are Telar's, by sample, so they are the same for every division of a batch."""
        class Depth(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(4, 64), nn.Linear(64, 1)

            def forward(self, x):
                keep = 0.75
                drawn = (keep + torch.rand((x.shape[0], 1))).floor_()
                return self.last(self.first(x).div(keep) * drawn)

        batch = (torch.ones(4000, 4), torch.zeros(4000, 1))
        losses, moments = [], []
        for options in ({}, {"strategy": "mirrored", "replicas": 2}):
            torch.manual_seed(0)
            net = Depth()
            step = tt.Step(net, nn.MSELoss(), torch.optim.SGD(net.parameters(), 0.1), engine="telar", **options)
            y, rest = net.first(batch[0][:1]) / 0.75 @ net.last.weight.T, net.last.bias
            moments.append((0.75 * (y + rest) ** 2 + 0.25 * rest**2).item())
            losses.append(step(*batch))
        self.assertAlmostEqual(losses[0], losses[1], places=5)
        self.assertLess(abs(losses[0] - moments[0]), 0.05 * moments[0])

    def test_a_module_that_returns_its_loss(self):
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x, y):
                return F.cross_entropy(self.fc(x), y)

        torch.manual_seed(0)
        net, batch = Loss(), (torch.randn(6, 4), torch.randint(0, 3, (6,)))
        right = float(net(*batch).detach())
        step = tt.Step(net, lambda module, x, y: module(x, y), torch.optim.SGD(net.parameters(), 0.1), engine="telar")
        self.assertAlmostEqual(step(*batch), right, places=5)
        for call in (lambda: step.predict(*batch), lambda: step.save("/nowhere/m.telar")):
            with self.assertRaisesRegex(telar.Error, "does not have the samples in axis 0"):
                call()

    def test_the_output_beside_a_loss(self):
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x, y):
                return {"loss": F.cross_entropy(self.fc(x), y), "logits": self.fc(x)}

        net, batch = Both(), (torch.randn(6, 4), torch.randint(0, 3, (6,)))
        step = tt.Step(net, lambda module, x, y: module(x, y)["loss"], torch.optim.SGD(net.parameters(), 0.0), engine="telar")
        step(*batch)
        self.assertLess(largest_difference([step.predict(*batch)], [net(*batch)["logits"]]), 1e-5)

    def test_what_is_written_to_a_buffer(self):
        self.assert_refused("writes its result to 'fc.parametrizations.weight.0._u'.*spectral_norm", lambda self, x: self.fc(x),
                            layers=lambda: {"fc": torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))})

    def test_branches_on_the_steps_values(self):
        """Layer drop; and chance of NumPy by which the export fails."""
        self.assert_refused("branches on a value that is known only at the step .*check_torch.py", lambda self, x: (
            self.fc(x) if torch.rand([]) < 0.5 else x[:, :3]))
        self.assert_refused("numpy.random", lambda self, x: self.fc(x) * torch.tensor(numpy.random.rand(len(x), 1), dtype=torch.float32))

    def test_fourier_transforms(self):
        self.assert_refused("fft_rfft is a Fourier transform", lambda self, x: self.fc(torch.fft.rfft(self.fc(x)).abs() @ torch.ones(2, 4)))

    def test_autocast(self):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.fc(x)
            return y.float()

        self.assert_refused("torch.autocast", forward)

    def test_changes_in_place_without_gradient(self):
        def forward(self, x):
            y = self.fc(x)
            with torch.no_grad():
                y.mul_(2)
            return y

        self.assert_refused("within torch.no_grad", forward)

    def test_no_loss_in_evaluation(self):
        def forward(self, x):
            y = self.fc(x)
            return (y, 2 * y) if self.training else y

        net = self.net(forward, {"fc": nn.Linear(4, 3)}.copy)
        step = tt.Step(net, lambda module, x, y: sum(F.cross_entropy(z, y) for z in module(x)[:2]), torch.optim.SGD(net.parameters(), 0.1),
                       engine="telar")
        batch = (torch.randn(6, 4), torch.randint(0, 3, (6,)))
        step(*batch)
        step.sync()
        with self.assertRaisesRegex(telar.Error, "in evaluation mode"):
            step.evaluate(*batch)

    def test_batch_norm_called_twice_is_right(self):
        self.run_step(lambda self, x: self.fc(self.norm(self.norm(x))), layers=lambda: {"fc": nn.Linear(4, 3), "norm": nn.BatchNorm1d(4)})

    def test_tied_weights_are_right(self):
        def layers():
            a, b = nn.Linear(4, 4), nn.Linear(4, 4)
            b.weight = a.weight
            return {"a": a, "b": b, "fc": nn.Linear(4, 3)}

        self.run_step(lambda self, x: self.fc(self.b(torch.tanh(self.a(x)))), layers=layers)

    def test_detach_is_right(self):
        self.run_step(lambda self, x: self.fc(x) + self.fc(x).detach())

    def test_without_gradient(self):
        def forward(self, x):
            with torch.no_grad():
                constant = self.fc(x)
            return self.fc(x) * constant

        self.run_step(forward)

    def _right_or_refused(self, forward, **options):
        try:
            self.run_step(forward, **options)
        except telar.Error as error:
            self.assertGreater(len(str(error)), 20)

    def test_branch_on_values(self):
        self._right_or_refused(lambda self, x: self.fc(x) if x.sum() > 0 else -self.fc(x))

    def test_in_place_on_a_view(self):
        def forward(self, x):
            y = self.fc(x)
            y[:, 0] = 0
            return y

        self._right_or_refused(forward)

    def test_in_place_activation_is_right(self):
        self.run_step(lambda self, x: self.fc2(F.relu_(self.fc(x))), layers=lambda: {"fc": nn.Linear(4, 4), "fc2": nn.Linear(4, 3)})

    def test_in_place_changes_what_is_used_again(self):
        def forward(self, x):
            y = self.fc(x)
            z = y.add_(1.0)
            return y * z

        self.run_step(forward)

    def test_buffer_that_changes(self):
        def forward(self, x):
            self.memory.add_(1.0)
            return self.fc(x) * self.memory

        def layers():
            layer = nn.Linear(4, 3)
            return {"fc": layer, "memory": nn.Buffer(torch.ones(3))}

        self._refused_with(forward, layers)

    def _refused_with(self, forward, layers):
        with self.assertRaises(telar.Error):
            self.run_step(forward, layers=layers)

    def test_time_major(self):
        self.assert_refused("axis 0", lambda self, x: self.fc(x), batch=(torch.randn(7, 5, 4), torch.randint(0, 3, (5,))))

    def test_time_inside_is_right(self):
        def forward(self, x):
            y, _ = self.rnn(x.transpose(0, 1))
            return self.fc(y[-1])

        self.run_step(forward, layers=lambda: {"rnn": nn.LSTM(4, 5), "fc": nn.Linear(5, 3)},
                      batch=(torch.randn(6, 7, 4), torch.randint(0, 3, (6,))))

    def test_last_states_of_layers_in_both_directions(self):
        def forward(self, x):
            _, (h, c) = self.rnn(self.fc(x))
            return self.out(torch.cat([h[-1], c[-2]], 1))

        self.run_step(forward, layers=lambda: {"fc": nn.Linear(4, 4), "rnn": nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True),
                                               "out": nn.Linear(10, 3)},
                      batch=(torch.randn(6, 7, 4), torch.randint(0, 3, (6,))))

    def test_states_of_an_encoder_begin_a_decoder(self):
        def forward(self, x):
            x = self.fc(x)
            _, states = self.encoder(x)
            return self.out(self.decoder(x, states)[0][:, -1])

        self.run_step(forward, layers=lambda: {"fc": nn.Linear(4, 4), "encoder": nn.LSTM(4, 5, batch_first=True),
                                               "decoder": nn.LSTM(4, 5, batch_first=True), "out": nn.Linear(5, 3)},
                      batch=(torch.randn(6, 7, 4), torch.randint(0, 3, (6,))))

    def test_rates_of_groups_that_part(self):
        net = self.net(lambda self, x: self.fc(x))
        optimizer = torch.optim.SGD([{"params": [net.fc.weight]}, {"params": [net.fc.bias], "lr": 0.01}], 0.1)
        step = tt.Step(net, nn.CrossEntropyLoss(), optimizer, engine="telar")
        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        step(*batch)
        optimizer.param_groups[1]["lr"] = 0.02
        with self.assertRaisesRegex(telar.Error, "learning rate of group 1 is 0.02"):
            step(*batch)

    def test_amsgrad(self):
        self.assert_refused("amsgrad", lambda self, x: self.fc(x),
                            optimizer=lambda net: torch.optim.Adam(net.parameters(), amsgrad=True))

    def test_unknown_optimizer(self):
        self.assert_refused("no optimizer", lambda self, x: self.fc(x), optimizer=lambda net: torch.optim.LBFGS(net.parameters()))

    def test_frozen_parameters_stay(self):
        net = self.net(lambda self, x: self.fc2(self.fc(x)), lambda: {"fc": nn.Linear(4, 4), "fc2": nn.Linear(4, 3)})
        net.fc.requires_grad_(False)
        before = net.fc.weight.clone()
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1))
        step(torch.randn(6, 4), torch.randint(0, 3, (6,)))
        step.sync()
        self.assertEqual(largest_difference([before], [net.fc.weight]), 0)

    def test_unused_parameter(self):
        net = self.net(lambda self, x: self.fc(x), layers=lambda: {"fc": nn.Linear(4, 3), "other": nn.Linear(4, 3)})
        other = copy.deepcopy(net)
        optimizer, right = (torch.optim.AdamW(m.parameters(), 0.1) for m in (net, other))
        step = tt.Step(net, nn.CrossEntropyLoss(), optimizer, engine="telar")
        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        step(*batch)
        step.sync()
        train(other, nn.CrossEntropyLoss(), right, [batch])
        self.assertLess(largest_difference(net.parameters(), other.parameters()), 1e-6)

    def test_half(self):
        self.assert_refused("float32|converts|export", lambda self, x: self.fc(x).half().float())

    def test_double(self):
        self._right_or_refused(lambda self, x: self.fc(x).double().float())

    def test_batch_of_one(self):
        self.run_step(lambda self, x: self.fc(x), batch=(torch.randn(1, 4), torch.randint(0, 3, (1,))))

    def test_other_shape_later(self):
        net = self.net(lambda self, x: self.fc(x))
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
        step(torch.randn(6, 4), torch.randint(0, 3, (6,)))
        with self.assertRaisesRegex(telar.Error, r"Size\(\[5\]\).* cannot be computed, and the first had .*Size\(\[4\]\).*: mat1 and mat2"):
            step(torch.randn(6, 5), torch.randint(0, 3, (6,)))

    def test_not_finite(self):
        net = self.net(lambda self, x: self.fc(x))
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1))
        step(torch.randn(6, 4), torch.randint(0, 3, (6,)))
        with self.assertRaisesRegex(telar.Error, "not finite: its loss is nan; nothing was updated"):
            step(torch.full((6, 4), float("nan")), torch.randint(0, 3, (6,)))

    def test_a_nan_is_not_hidden(self):
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU6(), nn.Linear(8, 3))
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), engine="telar")
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        step(x, y)
        before = step.values()
        wrong = x.clone()
        wrong[2, 1] = math.nan
        self.assertEqual(torch.isnan(step.predict(wrong)).any(1).tolist(), [False, False, True, False, False, False])
        self.assertTrue(math.isnan(step.evaluate(wrong, y)))
        with self.assertRaisesRegex(telar.Error, "its loss is nan; nothing was updated"):
            step(wrong, y)
        for name, values in step.values().items():
            self.assertEqual(abs(values - before[name]).max(), 0)

    def test_only_a_gradient_is_not_finite(self):
        net = nn.Sequential(nn.Linear(1, 1, bias=False))
        nn.init.constant_(net[0].weight, 1e-30)
        step = tt.Step(net, lambda net, x: (net(x) * 1e30).mean(), torch.optim.SGD(net.parameters(), 0.1), engine="telar")
        step(torch.zeros(2, 1))  # a gradient of 0, so the weight stays small
        step.sync()
        held = net[0].weight.item()
        with self.assertRaisesRegex(telar.Error, "a gradient of step 2 is not finite, although its loss is"):
            step(torch.full((2, 1), 1e10))
        self.assertEqual(step.values()["0.weight"].item(), numpy.float32(held))

    def test_batch_norm_of_a_single_sample(self):
        net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        step = tt.Step(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 0.1), engine="telar", strategy="mirrored",
                       replicas=2)
        step(torch.randn(3, 2), torch.tensor([0, 1, 0]))
        with self.assertRaisesRegex(telar.Error, "layer '.*1' normalises over the samples of a batch, .* this batch has 1 sample"):
            step(torch.randn(1, 2), torch.tensor([0]))

    def test_unknown_operation_names_layer_and_line(self):
        def forward(self, x):
            return torch.special.i0(self.fc(x))

        self.assert_refused('special_i0 .*check_torch.py", line', forward)

    def test_strategy_without_a_name(self):
        for name in ("mirored", "ddp"):
            self.assert_refused("did you mean 'mirrored'", lambda self, x: self.fc(x), strategy=name)


if __name__ == "__main__":
    unittest.main(verbosity=1)
