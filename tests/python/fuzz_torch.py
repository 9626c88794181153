#!/usr/bin/env python3
"""Random small programs of PyTorch, trained by PyTorch and by Telar under a random strategy: the same, or refused.

    python tests/python/fuzz_torch.py [PROGRAMS] [--seed SEED]

A program has a module of random layers, modes, hooks, frozen parameters, a loss, an optimizer, a schedule, and a loop of 20
steps that changes some of these, adds up gradients, or limits them. The losses, parameters, statistics and counters must be PyTorch's: within 1e-5, or three
times the error of PyTorch's own float32 against float64. A telar.Error is counted as a refusal. What is wrong is printed
with its seed: `fuzz_torch.py 1 --seed SEED` runs it again.
"""

import argparse
import collections
import contextlib
import os
import random
import sys
import warnings

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ModuleNotFoundError:
    print("fuzz_torch: SKIPPED, there is no PyTorch; scripts/install-peers installs it")
    sys.exit(77)

import telar
import telar.torch as tt

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_constructs import Halved, STEPS, eager  # noqa: E402: the folder must be on the path first

STRATEGIES = [("single", {})] * 3 + [("mirrored", {"replicas": 2}), ("mirrored", {"replicas": 3}), ("sharded", {"replicas": 2}),
                                    ("tensor", {"ways": 2, "split": ["*=columns"]}), ("pipeline", {"stages": 2})]


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


class Sequence(nn.Module):
    """A recurrent layer over the features, of which each is a step."""

    def __init__(self, kind, width):
        super().__init__()
        self.layer = kind(1, width, batch_first=True)

    def forward(self, x):
        return self.layer(x.unsqueeze(-1))[0].mean(1)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x):
        return self.layer(x.unsqueeze(1)).mean(1)


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.calls += 1
        return x


class Branching(nn.Module):
    def forward(self, x):
        return x if x.shape[0] > 1 else 2 * x


class OwnBackward(nn.Module):
    def forward(self, x):
        return Halved.apply(x)


class Placed(nn.Module):
    """A sample's output or gradient depends on its place in the batch, or on the others."""

    KINDS = {
        "first": lambda x: torch.cat([x[:2].detach(), x[2:]]), "half": lambda x: torch.cat([x[:x.shape[0] // 2].detach(), x[x.shape[0] // 2:]]),
        "thirds": lambda x: torch.where((torch.arange(x.shape[0]) % 3 == 0)[:, None], x.detach(), x),
        "beside the first": lambda x: x - 0.1 * x[:1], "rolled": lambda x: x + 0.1 * x.roll(1, 0), "sorted": lambda x: x.sort(0)[0],
        "mean's gradient": lambda x: x + x.mean(0) - x.mean(0).detach(), "many": lambda x: x if x.shape[0] > 4 else 1.1 * x,
        "turned": lambda x: 0.5 * (x + x.flip(0)), "counted": lambda x: x * (1 + 0.01 * torch.arange(x.shape[0], dtype=x.dtype)[:, None]),
    }

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return self.KINDS[self.kind](x)


class Slotted:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0


class Remembering(nn.Module):
    """What a call gives depends on the calls before it, by something that forward keeps."""

    of_class = 0

    def __init__(self, kind, width):
        super().__init__()
        self.kind, self.calls, self.kept, self.of_name, self.before, self.slotted = kind, 0, [], {}, None, Slotted()
        Remembering.of_class = 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        if not self.training:
            return x
        if self.kind == "number":
            self.calls += 1
            return x * min(1.0, 0.5 + self.calls / 20)
        if self.kind == "class":
            Remembering.of_class += 1
            return x * min(1.0, 0.5 + Remembering.of_class / 20)
        if self.kind == "slots":
            self.slotted.calls += 1
            return x * min(1.0, 0.5 + self.slotted.calls / 20)
        if self.kind == "list":
            self.kept.append(1)
            return x * min(1.0, 0.5 + len(self.kept) / 20)
        if self.kind == "dict":
            self.of_name["calls"] = self.of_name.get("calls", 0) + 1
            return x * min(1.0, 0.5 + self.of_name["calls"] / 20)
        if self.kind == "tensor":
            before, self.before = self.before, x.detach().mean(0)
            return x if before is None else x + 0.1 * before
        if self.kind == "buffer":
            self.steps.add_(1)
            return x * torch.clamp(0.5 + self.steps / 20, max=1.0)
        with torch.no_grad():
            if self.kind == "mean":
                self.mean.mul_(0.9).add_(0.1 * x.mean(0))
            else:
                self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Program:
    """The program of a seed. run(make) trains it by the step that make(model, loss, optimizer) gives."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.seed = seed
        self.strategy, self.options = self.pick(STRATEGIES)
        self.width = self.pick([4, 6, 8])
        self.sizes = self.pick([(6, 4, 5), (8,), (6, 6, 3)])
        self.plan = [self.pick(LAYERS) for _ in range(self.chance.randint(1, 5))]
        self.plan += [self.pick(RARE_LAYERS)] if self.rarely() else []
        self.norms = any(name in ("norm", "residual norm") for name in self.plan)
        if self.rarely() and not self.norms:
            self.sizes = (6, 1, 4)
        self.loss, self.optimizer, self.schedule = self.pick(list(LOSSES)), self.pick(list(OPTIMIZERS)), self.pick(list(SCHEDULES))
        self.attached = [self.pick(list(ATTACHED))] if self.chance.random() < 0.5 else []
        self.changes = [(self.pick(list(CHANGES)), self.chance.randint(1, STEPS - 2))] if self.chance.random() < 0.5 else []
        self.loop = random.Random(f"loop of {seed}").choice([*["steps"] * 4, "adds up", "limits"])  # apart, so seeds keep the rest
        apart = random.Random(f"further of {seed}")
        further = apart.choice([None] * 6 + ["placed", "remembering", "placed", "remembering"])
        if further is not None:
            self.plan.insert(apart.randint(0, len(self.plan)), f"{further}: {apart.choice(FURTHER[further])}")
        self.engine = apart.choice(["auto"] * 4 + ["torch"])

    def pick(self, choices):
        return choices[self.chance.randrange(len(choices))]

    def rarely(self):
        return self.chance.random() < 0.15

    def __str__(self):
        return (f"seed {self.seed}: {self.strategy} {self.options}, layers {self.plan}, width {self.width}, sizes {self.sizes}, "
                f"{self.loss}, {self.optimizer}, {self.schedule}, attached {self.attached}, changes {self.changes}, loop {self.loop}, "
                f"engine {self.engine}")

    def run(self, make, dtype=torch.float32):
        """The module, and the losses."""
        torch.manual_seed(self.seed)
        net = nn.Sequential(nn.Linear(4, self.width), *[layer_of(name, self.width) for name in self.plan], nn.Linear(self.width, 3))
        batches = [(torch.randn(n, 4), torch.randint(0, 3, (n,))) for n in (self.sizes[i % len(self.sizes)] for i in range(STEPS))]
        net = net.to(dtype)
        optimizer = OPTIMIZERS[self.optimizer](net)
        schedule = SCHEDULES[self.schedule](optimizer)
        for name in self.attached:
            ATTACHED[name](net, optimizer)
        step = make(net, LOSSES[self.loss](dtype), optimizer)
        losses = []
        for i, (x, y) in enumerate(batches):
            losses.append(step(x.to(dtype), y, update=self.loop == "steps" or self.loop == "adds up" and i % 2 == 1))
            if self.loop == "limits":
                nn.utils.clip_grad_norm_(net.parameters(), 0.2)
                optimizer.step()
                optimizer.zero_grad()
            for change, at in self.changes:
                if i == at:
                    CHANGES[change](net, optimizer, step)
            with contextlib.nullcontext() if schedule is None else warnings.catch_warnings():
                if schedule is not None:
                    schedule.step()
        step.sync()
        return net, losses


LAYER = {
    "linear": lambda width: nn.Linear(width, width), "tanh": lambda width: nn.Tanh(), "gelu": lambda width: nn.GELU(),
    "silu": lambda width: nn.SiLU(), "softplus": lambda width: nn.Softplus(), "norm": lambda width: nn.BatchNorm1d(width),
    "layer norm": lambda width: nn.LayerNorm(width), "dropout": lambda width: nn.Dropout(0.0),
    "residual": lambda width: Residual(nn.Linear(width, width), nn.Tanh()),
    "residual norm": lambda width: Residual(nn.BatchNorm1d(width, momentum=0.3), nn.Linear(width, width)),
    "convolution": lambda width: Convolution(), "gru": lambda width: Sequence(nn.GRU, width),
    "lstm": lambda width: Sequence(nn.LSTM, width), "counting": lambda width: Counting(), "branching": lambda width: Branching(),
    "own backward": lambda width: OwnBackward(),
    "weight norm": lambda width: nn.utils.parametrizations.weight_norm(nn.Linear(width, width)),
}
FURTHER = {"placed": list(Placed.KINDS), "remembering": ["number", "class", "slots", "list", "dict", "tensor", "buffer", "mean", "replaced mean"]}


def layer_of(name, width):
    kind, _, which = name.partition(": ")
    return LAYER[name](width) if not which else Placed(which) if kind == "placed" else Remembering(which, width)


RARE_LAYERS = ["counting", "branching", "own backward"]
LAYERS = [name for name in LAYER if name not in RARE_LAYERS]

LOSSES = {
    "cross-entropy": lambda dtype: nn.CrossEntropyLoss(),
    "cross-entropy with weights": lambda dtype: nn.CrossEntropyLoss(torch.tensor([0.5, 1.0, 2.0], dtype=dtype)),
    "cross-entropy that ignores 0": lambda dtype: nn.CrossEntropyLoss(ignore_index=0),
    "smooth cross-entropy": lambda dtype: nn.CrossEntropyLoss(label_smoothing=0.1),
    "sum": lambda dtype: nn.CrossEntropyLoss(reduction="sum"),
    "squares": lambda dtype: lambda net, x, y: F.mse_loss(net(x), F.one_hot(y, 3).to(x.dtype)),
    "with a penalty": lambda dtype: lambda net, x, y: F.cross_entropy(net(x), y) + 0.01 * sum(p.square().sum() for p in net.parameters()),
}


def halves(net):
    """Two groups of a module's parameters."""
    found = list(net.parameters())
    return [{"params": found[:2]}, {"params": found[2:], "lr": 0.005}]


OPTIMIZERS = {
    "SGD": lambda net: torch.optim.SGD(net.parameters(), 0.02),
    "SGD with momentum": lambda net: torch.optim.SGD(net.parameters(), 0.02, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "SGD of groups": lambda net: torch.optim.SGD(halves(net), 0.02, momentum=0.8),
    "Adam": lambda net: torch.optim.Adam(net.parameters(), 2e-3, eps=1e-3), "AdamW": lambda net: torch.optim.AdamW(halves(net), 2e-3, eps=1e-3),
    "RMSprop": lambda net: torch.optim.RMSprop(net.parameters(), 1e-3, eps=1e-2, momentum=0.5),
    "Adagrad": lambda net: torch.optim.Adagrad(net.parameters(), 1e-2, eps=1e-2),
    "NAdam": lambda net: torch.optim.NAdam(net.parameters(), 2e-3, eps=1e-3),
    "amsgrad": lambda net: torch.optim.Adam(net.parameters(), 2e-3, eps=1e-3, amsgrad=True),
}

scheduler = torch.optim.lr_scheduler
SCHEDULES = {
    "no schedule": lambda optimizer: None, "steps": lambda optimizer: scheduler.StepLR(optimizer, 5, 0.5),
    "cosine": lambda optimizer: scheduler.CosineAnnealingLR(optimizer, STEPS), "warm-up": lambda optimizer: scheduler.LinearLR(optimizer),
    "one cycle": lambda optimizer: scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS + 1, cycle_momentum="momentum" in optimizer.defaults
                                                        and optimizer.defaults["momentum"] > 0 or "betas" in optimizer.defaults),
}


def norms_of(net):
    return [layer for layer in net.modules() if isinstance(layer, nn.BatchNorm1d)] or [net[-1]]


def doubled(parameter):
    parameter.grad.mul_(2)


def limited(net, optimizer):
    def limit(*_):
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)

    optimizer.register_step_pre_hook(limit)


def clamped(net, optimizer):
    def clamp(*_):
        with torch.no_grad():
            for p in net.parameters():
                p.clamp_(-0.8, 0.8)

    optimizer.register_step_post_hook(clamp)


ATTACHED = {
    "norms in evaluation": lambda net, optimizer: [layer.eval() for layer in norms_of(net)],
    "frozen first layer": lambda net, optimizer: net[0].requires_grad_(False),
    "parameter hook": lambda net, optimizer: net[-1].weight.register_hook(lambda g: 0.5 * g),
    "parameter hook that limits": lambda net, optimizer: net[0].weight.register_hook(lambda g: g.clamp(-0.05, 0.05)),
    "accumulation hook": lambda net, optimizer: net[0].bias.register_post_accumulate_grad_hook(doubled),
    "optimizer's hook before": limited, "optimizer's hook after": clamped,
    "forward hook": lambda net, optimizer: net[0].register_forward_hook(lambda layer, given, found: 0.9 * found),
    "backward hook": lambda net, optimizer: net[-1].register_full_backward_hook(lambda layer, into, of: tuple(g if g is None else 0.5 * g for g in into)),
}


def synced_and_clamped(net, optimizer, step):
    step.sync()
    net[0].weight.data.clamp_(-0.1, 0.1)


def evaluated(net, optimizer, step):
    net.eval()
    net(torch.zeros(2, 4, dtype=net[0].weight.dtype))
    net.train()


def layer_added(net, optimizer, step):
    step.sync()
    net[-1] = nn.Sequential(net[-1], nn.Tanh())


CHANGES = {
    "norms freeze": lambda net, optimizer, step: [layer.eval() for layer in norms_of(net)],
    "first layer freezes": lambda net, optimizer, step: net[0].requires_grad_(False),
    "all is trained": lambda net, optimizer, step: net.requires_grad_(True),
    "a parameter gets a hook": lambda net, optimizer, step: net[-1].weight.register_hook(lambda g: 0.5 * g),
    "the optimizer gets a hook": lambda net, optimizer, step: limited(net, optimizer),
    "a layer gets a hook": lambda net, optimizer, step: net[0].register_forward_hook(lambda layer, given, found: 0.9 * found),
    "sync": lambda net, optimizer, step: step.sync(), "sync and clamp": synced_and_clamped, "evaluation": evaluated,
    "a layer is added": layer_added,
    "weight decay": lambda net, optimizer, step: [group.update(weight_decay=0.05) for group in optimizer.param_groups],
}


def largest(a, b):
    return max((abs(float(x) - float(y)) / max(1.0, abs(float(y))) for x, y in zip(a, b)), default=0.0)


def state_error(net, right):
    """The largest difference of values, and the first counter that is another."""
    worst, counter = 0.0, None
    for (name, found), other in zip(net.state_dict().items(), right.state_dict().values()):
        difference = float((found.double() - other.double()).abs().max())
        if name.endswith(("calls", "steps", "num_batches_tracked")) and difference > 0:
            counter = counter or name
        worst = max(worst, difference)
    return worst, counter


def prediction_error(net, right):
    """The largest difference of predictions: of a bias before a norm, the gradient is rounding alone, and its values tell nothing."""
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, other = (module.eval()(x.to(module[0].weight.dtype)).double() for module in (net, right))
    return float((found - other).abs().max())


def outcome(program):
    """(kind, text) of a program: engine, engine with PyTorch's updates, pytorch, refused or WRONG."""
    right, expected = program.run(eager)
    exact, in_double = program.run(eager, torch.float64)
    steps = []

    def make(*arguments):
        steps.append(tt.Step(*arguments, strategy=program.strategy, engine=program.engine, threads=2, **program.options))
        return steps[-1]

    try:
        net, losses = program.run(make)
    except telar.Error as error:
        return "refused", str(error)
    except Exception as error:  # PyTorch's own, which the loop of PyTorch did not have
        alone = "more than 1 value per channel" in str(error)  # a worker's part of a batch may be one sample
        return "refused" if alone else "WRONG", f"{type(error).__name__}: {error}"
    by_torch, own = any(step._external for step in steps), any(step._own for step in steps)
    kind = "pytorch" if by_torch else "engine, PyTorch's updates" if own else "engine"
    allowed = max(1e-5, 3 * largest(expected, in_double))
    if not largest(losses, in_double) <= allowed:
        return "WRONG", f"losses are off by {largest(losses, in_double):.2g} by {kind}, PyTorch's by {largest(expected, in_double):.2g}"
    error, counter = state_error(net, exact)
    allowed = max(5e-5, 10 * state_error(right, exact)[0])  # of a bias before a norm, rounding alone decides, and by luck
    if counter is not None or not (error <= allowed or prediction_error(net, exact) <= 5e-5):
        return "WRONG", f"values are off by {error:.2g} by {kind}, PyTorch's by {state_error(right, exact)[0]:.2g}, counter {counter}"
    return kind, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="?", type=int, default=40)
    parser.add_argument("--seed", type=int, help="of the first program; the others follow. By chance without it")
    parser.add_argument("--verbose", action="store_true", help="shows each program")
    given = parser.parse_args()
    first = random.randrange(10**6) if given.seed is None else given.seed
    print(f"fuzz_torch: {given.programs} programs from --seed {first}", flush=True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = collections.Counter()
    for seed in range(first, first + given.programs):
        program = Program(seed)
        kind, text = outcome(program)
        found[kind] += 1
        if given.verbose or kind == "WRONG":
            print(f"{kind} {text}\n  {program}", flush=True)
    print(f"fuzz_torch: {dict(found)}")
    return 1 if found["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
