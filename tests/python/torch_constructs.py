"""Constructs that hang on a module, its parameters or its optimizer, and loops that change these as they go.

Each is a training loop, written once: a function of `make`, which gives the step of that loop, PyTorch's or Telar's. It
returns the module and the losses. The result of Telar must be PyTorch's, or a telar.Error that names the construct.
"""

import copy
import dataclasses
import functools

import torch
from torch import nn
from torch.nn import functional as F

CONSTRUCTS = {}
STEPS = 20


def construct(function=None, *, refused=None, engine="telar", by_share=False):
    """refused: what the error of a construct that is refused has in it. engine: what must compute it with engine="auto".

    by_share: whether each worker computes something else, if PyTorch computes: a batch norm takes the statistics of its share.
    """
    if function is None:
        return functools.partial(construct, refused=refused, engine=engine, by_share=by_share)
    function.refused, function.engine, function.by_share = refused, engine, by_share
    CONSTRUCTS[function.__name__] = function
    return function


def eager(model, loss, optimizer, clip_norm=None):
    """PyTorch's step."""

    adds_up = False

    def step(*batch, update=True):
        nonlocal adds_up
        if update and not adds_up:
            optimizer.zero_grad()
        value = loss(model(*batch[:-1]), batch[-1]) if isinstance(loss, nn.Module) else loss(model, *batch)
        value.backward()
        adds_up = not update
        if update:
            if clip_norm:
                nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            optimizer.zero_grad()
        return float(value.detach())

    step.sync = lambda: None
    return step


def batches(sizes=(6, 4, 5), seed=1, steps=STEPS):
    torch.manual_seed(seed)
    return [(torch.randn(n, 4), torch.randint(0, 3, (n,))) for n in (sizes[i % len(sizes)] for i in range(steps))]


def mlp(*between):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), *between, nn.Tanh(), nn.Linear(6, 3))


def sgd(net, rate=0.1, **options):
    return torch.optim.SGD(net.parameters(), rate, **{"momentum": 0.9, **options})


def looped(make, net, optimizer=None, loss=None, between=lambda step, i: None, given=None):
    """The losses of a loop. between(step, i): after step i."""
    step = make(net, loss or nn.CrossEntropyLoss(), optimizer or sgd(net))
    losses = []
    for i, batch in enumerate(given or batches()):
        losses.append(step(*batch))
        between(step, i)
    step.sync()
    return net, losses


# Modes of layers


@construct
def frozen_norm(make):
    net = mlp(nn.BatchNorm1d(6))
    net[1].running_mean.fill_(0.5)
    net[1].eval()
    return looped(make, net)


@construct
def dropout_in_evaluation(make):
    net = mlp(nn.Dropout(0.5))
    net[1].eval()
    return looped(make, net)


@construct
def norm_frozen_by_train(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp(nn.BatchNorm1d(6))

        def train(self, mode=True):
            super().train(mode)
            self.layers[1].eval()
            return self

        def forward(self, x):
            return self.layers(x)

    net = Net()
    net.train()
    return looped(make, net)


@construct
def norm_frozen_later(make):
    net = mlp(nn.BatchNorm1d(6))
    return looped(make, net, between=lambda step, i: net[1].eval() if i == 6 else None)


@construct
def norm_frozen_and_back(make):
    net = mlp(nn.BatchNorm1d(6))
    return looped(make, net, between=lambda step, i: net[1].train(i % 4 > 1))


@construct
def mode_set_by_hand(make):
    net = mlp(nn.BatchNorm1d(6))

    def between(step, i):
        net[1].training = i < 7

    return looped(make, net, between=between)


@construct
def validation_between(make):
    net = mlp(nn.BatchNorm1d(6))

    def between(step, i):
        net.eval()
        net(torch.zeros(2, 4))
        net.train()

    return looped(make, net, between=between)


@construct
def layer_frozen_in_parts(make):
    net = nn.Sequential(mlp(nn.BatchNorm1d(6)), nn.BatchNorm1d(3))
    net[0].eval()
    return looped(make, net)


# Hooks of parameters


@construct
def parameter_hook(make):
    net = mlp()
    net[0].weight.register_hook(lambda gradient: 0.1 * gradient)
    return looped(make, net)


@construct
def parameter_hook_that_clamps(make):
    net = mlp()
    net[0].weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    return looped(make, net)


@construct
def parameter_hook_that_shows_late(make):
    net = mlp()
    net[0].weight.register_hook(lambda gradient: gradient.clamp(-100, 0.02))
    return looped(make, net)


@construct
def parameter_hook_later(make):
    net = mlp()
    return looped(make, net, between=lambda step, i: i == 5 and net[0].weight.register_hook(lambda g: 0.1 * g))


@construct
def parameter_hook_removed(make):
    net = mlp()
    handle = net[0].weight.register_hook(lambda gradient: 0.1 * gradient)
    return looped(make, net, between=lambda step, i: i == 5 and handle.remove())


@construct
def accumulate_hook(make):
    net = mlp()

    def halve(parameter):
        parameter.grad.mul_(0.5)

    net[2].weight.register_post_accumulate_grad_hook(halve)
    return looped(make, net)


@construct
def hook_that_counts(make):
    net = mlp()
    seen = []
    net[0].weight.register_hook(lambda gradient: seen.append(float(gradient.norm())))
    net, losses = looped(make, net)
    return net, losses + seen


@construct
def optimizer_in_backward(make):
    net = mlp()
    own = {p: torch.optim.SGD([p], 0.05) for p in net[0].parameters()}

    def update(parameter):
        own[parameter].step()
        own[parameter].zero_grad()

    for p in own:
        p.register_post_accumulate_grad_hook(update)
    return looped(make, net, torch.optim.SGD(net[2].parameters(), 0.1))


# Hooks of the optimizer


@construct
def optimizer_pre_hook(make):
    net = mlp()
    optimizer = sgd(net)
    optimizer.register_step_pre_hook(lambda optimizer, given, named: nn.utils.clip_grad_norm_(net.parameters(), 0.05) and None)
    return looped(make, net, optimizer)


@construct
def optimizer_post_hook_that_clamps(make):
    net = mlp()
    optimizer = sgd(net)

    def clamp(optimizer, given, named):
        with torch.no_grad():
            for p in net.parameters():
                p.clamp_(-0.3, 0.3)

    optimizer.register_step_post_hook(clamp)
    return looped(make, net, optimizer)


@construct
def optimizer_post_hook_with_average(make):
    net = mlp()
    average = copy.deepcopy(net)
    optimizer = sgd(net)

    def follow(optimizer, given, named):
        with torch.no_grad():
            for mean, p in zip(average.parameters(), net.parameters()):
                mean.lerp_(p, 0.1)

    optimizer.register_step_post_hook(follow)
    _, losses = looped(make, net, optimizer)
    return nn.ModuleList([net, average]), losses


@construct
def optimizer_hook_later(make):
    net = mlp()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)

    def halve(optimizer, given, named):
        for p in net.parameters():
            p.grad.mul_(0.5)

    return looped(make, net, optimizer, between=lambda step, i: i == 5 and optimizer.register_step_pre_hook(halve))


@construct
def optimizer_step_of_its_own(make):
    class Noisy(torch.optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.grad = p.grad.sign()
            super().step(closure)

    net = mlp()
    return looped(make, net, Noisy(net.parameters(), 0.01))


@construct
def optimizer_step_replaced(make):
    net = mlp()
    optimizer = sgd(net)
    step = optimizer.step

    def clipped(closure=None):
        nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        step(closure)

    optimizer.step = clipped
    return looped(make, net, optimizer)


# Hooks of modules


@construct(engine="torch")
def backward_hook(make):
    net = mlp()
    net[2].register_full_backward_hook(lambda layer, into, of: tuple(g * 0.5 for g in into))
    return looped(make, net)


@construct(engine="torch")
def backward_hook_that_counts(make):
    net, seen = mlp(), []
    net[2].register_full_backward_hook(lambda layer, into, of: seen.append(float(of[0].norm())))
    net, losses = looped(make, net)
    return net, losses + seen


@construct(engine="torch")
def forward_hook_that_counts(make):
    net, seen = mlp(), []
    net[0].register_forward_hook(lambda layer, given, found: seen.append(float(found.detach().mean())))
    net, losses = looped(make, net)
    return net, losses + seen


@construct(engine="torch")
def forward_hook_later(make):
    net = mlp()
    return looped(make, net, between=lambda step, i: i == 5 and net[0].register_forward_hook(lambda m, g, found: 0.5 * found))


@construct(engine="torch")
def forward_pre_hook_later(make):
    net = mlp()
    return looped(make, net, between=lambda step, i: i == 5 and net[2].register_forward_pre_hook(lambda m, given: (0.5 * given[0],)))


@construct
def weight_norm_by_hook(make):
    net = mlp()
    nn.utils.weight_norm(net[0])
    return looped(make, net)


# Branches on the batch's size


class OddOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp()

    def forward(self, x):
        y = self.layers(x)
        return y if x.shape[0] > 1 else 3 * y


@construct(engine="torch")
def branch_on_one_sample(make):
    return looped(make, OddOne(), given=batches((6, 4, 1)))


@construct(engine="torch")
def branch_on_one_sample_first(make):
    return looped(make, OddOne(), given=batches((1, 6, 4)))


@construct(engine="torch", by_share=True)
def squeezed(make):
    net = nn.Sequential(mlp(), nn.Linear(3, 1))
    given = [(x, y.float()) for x, y in batches((6, 4, 1))]
    return looped(make, net, loss=lambda net, x, y: (net(x).squeeze() - y).square().mean() * (2 if net(x).squeeze().dim() else 1),
                  given=given)


@construct(engine="torch")
def branch_on_the_size(make):
    class Net(OddOne):
        def forward(self, x):
            y = self.layers(x)
            return y if x.shape[0] > 4 else 3 * y

    return looped(make, Net())


@construct
def penalty_with_one_sample_first(make):
    """Found by fuzz_torch.py 1 --seed 20236."""
    net = mlp()
    return looped(make, net, loss=lambda net, x, y: F.cross_entropy(net(x), y) + 0.1 * sum(p.square().sum() for p in net.parameters()),
                  given=batches((1, 6, 4)))


# State that forward changes


class Codebook(nn.Module):
    """A parameter that has no gradient, and that forward moves."""

    def __init__(self):
        super().__init__()
        self.layers = mlp()
        self.centre = nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.centre.lerp_(x.mean(0), 0.1)
        return self.layers(x - self.centre)


@construct(engine="torch")
def codebook(make):
    return looped(make, Codebook())


@construct(engine="torch")
def counter_buffer(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp()
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            self.seen += 1
            return self.layers(x)

    return looped(make, Net())


@construct(engine="torch")
def teacher(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.teacher = mlp(), mlp()
            self.teacher.requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                for mean, p in zip(self.teacher.parameters(), self.layers.parameters()):
                    mean.lerp_(p, 0.1)
            return self.layers(x) + self.teacher(x)

    return looped(make, Net())


# Backward functions


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return 0.5 * gradient


class Limited(Halved):
    @staticmethod
    def backward(context, gradient):
        return gradient.clamp(-100, 0.02)


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layers, self.function = mlp(), function

    def forward(self, x):
        return self.function.apply(self.layers(x))


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient * context.saved_tensors[0]


@construct
def backward_that_is_the_derivative(make):
    return looped(make, Applied(Squared))


@construct(engine="torch")
def backward_of_its_own(make):
    return looped(make, Applied(Halved))


@construct(engine="torch")
def backward_that_shows_late(make):
    return looped(make, Applied(Limited))


@construct(engine="torch")
def backward_unchecked(make):
    return looped(functools.partial(make, check=False), Applied(Halved))


@construct(engine="torch")
def hook_in_forward(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp()

        def forward(self, x):
            y = self.layers(x)
            if y.requires_grad:
                y.register_hook(lambda gradient: gradient.clamp(-100, 0.02))
            return y

    return looped(make, Net())


@construct(engine="torch")
def gradient_that_is_retained(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp()

        def forward(self, x):
            self.kept = self.layers[0](x)
            if self.kept.requires_grad:
                self.kept.retain_grad()
            return self.layers[1:](self.kept)

    net, found = Net(), []
    _, losses = looped(make, net, between=lambda step, i: found.append(float(net.kept.grad.norm())))
    return net, losses + found


# Gradients of several batches


def accumulated(make, net, given):
    step = make(net, lambda net, x, y: F.cross_entropy(net(x), y) / 3, torch.optim.Adam(net.parameters(), 0.01, eps=1e-3))
    return net, [step(*batch, update=i % 3 == 2) for i, batch in enumerate(given)]


@construct
def accumulation(make):
    return accumulated(make, mlp(nn.BatchNorm1d(6)), batches())


@construct(engine="torch")
def accumulation_by_pytorch(make):
    return accumulated(make, OddOne(), batches((6, 1, 4)))


def loop_of_its_own(make, net, given, limit=lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.3)):
    """The loop limits gradients, and calls the optimizer itself."""
    optimizer = torch.optim.Adam(net.parameters(), 0.01, eps=1e-3)
    step, found = make(net, nn.CrossEntropyLoss(), optimizer), []
    for i, batch in enumerate(given):
        optimizer.zero_grad(set_to_none=i % 2 == 0)
        found.append(step(*batch, update=False))
        found.append(float(limit(net.parameters()) or 0))
        optimizer.step()
    found += [step(*batch) for batch in given[:3]]
    return net, found


@construct
def clipping_by_the_loop(make):
    return loop_of_its_own(make, mlp(nn.BatchNorm1d(6)), batches())


@construct
def clipping_of_values_by_the_loop(make):
    return loop_of_its_own(make, mlp(), batches(), lambda parameters: nn.utils.clip_grad_value_(parameters, 0.02))


@construct(engine="torch")
def clipping_by_the_loop_and_pytorch(make):
    return loop_of_its_own(make, OddOne(), batches((6, 1, 4)))


@construct
def gradients_that_the_loop_adds(make):
    net = mlp()
    optimizer = sgd(net)
    step, losses = make(net, nn.CrossEntropyLoss(), optimizer), []
    for batch in batches():
        (0.01 * sum(p.square().sum() for p in net.parameters())).backward()
        losses.append(step(*batch, update=False))
        optimizer.step()
        optimizer.zero_grad()
    return net, losses


# Freezing


@construct
def frozen_later(make):
    net = mlp()
    return looped(make, net, between=lambda step, i: i == 6 and net[0].requires_grad_(False))


@construct
def unfrozen_later(make):
    net = mlp()
    net[0].requires_grad_(False)
    return looped(make, net, between=lambda step, i: i == 6 and net[0].requires_grad_(True))


@construct
def unfrozen_later_with_adam(make):
    net = mlp()
    net[0].requires_grad_(False)
    return looped(make, net, torch.optim.AdamW(net.parameters(), 0.01),
                  between=lambda step, i: i == 6 and net[0].requires_grad_(True))


@construct
def frozen_by_turns(make):
    net = mlp()
    return looped(make, net, between=lambda step, i: net[0].requires_grad_(i % 2 == 0))


@construct
def group_added(make):
    net = mlp()
    optimizer = sgd(net[2])
    return looped(make, net, optimizer, between=lambda step, i: i == 6 and optimizer.add_param_group(
        {"params": list(net[0].parameters()), "lr": 0.03}))


# Options


@construct
def one_cycle(make):
    net = mlp()
    optimizer = sgd(net)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=STEPS + 1)
    return looped(make, net, optimizer, between=lambda step, i: scheduler.step())


@construct
def rates_that_part(make):
    net = mlp()
    optimizer = torch.optim.SGD([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters(), "lr": 0.05}])

    def between(step, i):
        optimizer.param_groups[1]["lr"] *= 0.9

    return looped(make, net, optimizer, between=between)


@construct
def other_optimizers(make):
    losses, nets = [], []
    for kind in (torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax, functools.partial(torch.optim.Adam, amsgrad=True),
                 functools.partial(torch.optim.SGD, momentum=0.9, dampening=0.5)):
        net = mlp()
        nets.append(net)
        losses += looped(make, net, kind(net.parameters(), 0.01))[1]
    return nn.ModuleList(nets), losses


class Lion(torch.optim.Optimizer):
    """As published (arXiv:2302.06675), and as users write it."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(mean.lerp(p.grad, 1 - group["betas"][0]).sign_(), alpha=-group["lr"])
                mean.lerp_(p.grad, 1 - group["betas"][1])


@construct
def optimizers_of_users(make):
    losses, nets = [], []
    for kind in (Lion, torch.optim.Adafactor, torch.optim.Muon):
        net = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 3, bias=False))
        torch.manual_seed(2)
        nn.init.normal_(net[0].weight)
        nn.init.normal_(net[2].weight)
        nets.append(net)
        losses += looped(make, net, kind(net.parameters(), lr=1e-3))[1]
    return nn.ModuleList(nets), losses


def sparse(make, kind, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten())
    given = [(torch.randint(0, 10, (n, 3)), torch.randint(0, 12, (n,))) for n in (6, 4, 5, 6)]
    return looped(make, net, kind(net.parameters(), 0.1, **options), given=given)


@construct
def sparse_gradients(make):
    """Whole ones change what sparse ones change."""
    found = [sparse(make, torch.optim.SGD, momentum=0.9), sparse(make, torch.optim.Adagrad)]
    return nn.ModuleList(net for net, _ in found), [loss for _, losses in found for loss in losses]


@construct(engine="torch")
def optimizer_of_sparse_gradients(make):
    """Which updates only the rows of the batch."""
    return sparse(make, torch.optim.SparseAdam)


@construct
def maximised(make):
    net = mlp()
    return looped(make, net, sgd(net, 0.01, maximize=True))


# Values changed by hand


@construct
def clamped_after_sync(make):
    net = mlp()

    def between(step, i):
        step.sync()
        with torch.no_grad():
            net[0].weight.clamp_(-0.2, 0.2)

    return looped(make, net, between=between)


@construct
def clamped_by_data_after_sync(make):
    net = mlp()

    def between(step, i):
        step.sync()
        net[0].weight.data.clamp_(-0.2, 0.2)

    return looped(make, net, between=between)


@construct
def clamped(make):
    net = mlp()

    def between(step, i):
        with torch.no_grad():
            net[0].weight.clamp_(-0.2, 0.2)

    return looped(make, net, between=between)


@construct
def clamped_by_data(make):
    net = mlp()
    return looped(make, net, between=lambda step, i: net[0].weight.data.clamp_(-0.2, 0.2))


@construct
def clamped_by_views_that_were_kept(make):
    net = mlp(nn.BatchNorm1d(6))
    view, array = net[0].weight.data, net[3].bias.detach().numpy()

    def between(step, i):
        view.clamp_(-0.2, 0.2)
        array.clip(-0.1, 0.1, out=array)

    return looped(make, net, between=between)


@construct
def rows_that_change_places(make):
    net, order = mlp(), torch.tensor([3, 0, 1, 2, 5, 4])

    def between(step, i):
        net[0].weight.data.copy_(net[0].weight.data[order])

    return looped(make, net, between=between)


@construct
def loaded_in_between(make):
    net = mlp(nn.BatchNorm1d(6))
    optimizer = torch.optim.Adam(net.parameters(), 0.01, eps=1e-3)
    kept = []

    def between(step, i):
        if i == 4:
            kept.extend(copy.deepcopy([net.state_dict(), optimizer.state_dict()]))
        if i == 9:
            net.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])

    return looped(make, net, optimizer, between=between)


@construct
def state_of_the_optimizer_by_hand(make):
    net = mlp()
    optimizer = torch.optim.Adam(net.parameters(), 0.01, eps=1e-3)

    def between(step, i):
        if i == 5:
            optimizer.state[net[0].weight]["exp_avg"].mul_(-3)
        if i == 11:
            optimizer.state.clear()
        if i == 15:
            optimizer.load_state_dict(torch.optim.Adam(net.parameters(), 0.02, eps=1e-3).state_dict())

    return looped(make, net, optimizer, between=between)


# Values that follow


@construct
def generator_and_critic(make):
    """As written for PyTorch: each step reads what the other has trained."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
    critic = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    both = nn.Sequential(generator, critic)
    of_critic = make(critic, lambda net, real, fake: F.softplus(-net(real)).mean() + F.softplus(net(fake)).mean(),
                     torch.optim.Adam(critic.parameters(), 0.003, eps=1e-3))
    of_generator = make(both, lambda net, z: F.softplus(-net(z)).mean(), torch.optim.Adam(generator.parameters(), 0.003, eps=1e-3))
    losses = []
    for real, _ in batches((6,)):
        z = torch.randn(6, 2)
        fake = generator(z).detach()
        losses += [of_critic(real, fake), of_generator(z), float(F.softplus(critic(real)).detach().mean())]
    return both, losses


@construct
def moving_average(make):
    net = mlp(nn.BatchNorm1d(6))
    average = copy.deepcopy(net)
    pairs = list(zip(average.parameters(), net.parameters()))  # which are kept
    found = []

    def between(step, i):
        with torch.no_grad():
            for mean, parameter in pairs:
                mean.lerp_(parameter, 0.1)
            found.append(float(sum(mean.square().sum() for mean, _ in pairs)))

    _, losses = looped(make, net, between=between)
    return nn.ModuleList([net, average]), losses + found


@construct
def two_losses_by_turns(make):
    net = mlp()
    optimizer = torch.optim.Adam(net.parameters(), 0.01, eps=1e-3)
    steps = [make(net, loss, optimizer) for loss in (nn.CrossEntropyLoss(), lambda net, x, y: net(x).square().mean())]
    return net, [steps[i % 2](*batch) for i, batch in enumerate(batches())]


@construct
def momentum_of_keys(make):
    """A second encoder within the module, moved by `.data`."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.queries, self.keys = mlp(), mlp().requires_grad_(False)

        def forward(self, x):
            return self.queries(x) * self.keys(x).tanh()

    net = Net()

    def between(step, i):
        for key, query in zip(net.keys.parameters(), net.queries.parameters()):
            key.data = key.data * 0.9 + query.data * 0.1

    return looped(make, net, between=between)


@construct
def statistics_reset(make):
    net = mlp(nn.BatchNorm1d(6))

    def between(step, i):
        if i == 5:
            step.sync()
            net[1].reset_running_stats()

    return looped(make, net, between=between)


@construct
def layer_replaced(make):
    net = mlp(nn.Identity())

    def between(step, i):
        if i == 5:
            net[1] = nn.LayerNorm(6, elementwise_affine=False)

    return looped(make, net, between=between)


@construct
def parameter_replaced(make):
    net = mlp()

    def between(step, i):
        if i == 5:
            step.sync()
            net[0].bias = nn.Parameter(torch.full((6,), 0.5))

    return looped(make, net, between=between)


@construct(engine="torch")
def rate_of_dropout_later(make):
    net = mlp(nn.Dropout(0.0))

    def between(step, i):
        net[1].p = 0.0 if i % 10 < 5 else 1.0  # which Telar leaves to PyTorch

    return looped(make, net, between=between)


# Counters and types


@construct
def counter_goes_on(make):
    net = mlp(nn.BatchNorm1d(6))
    net[1].num_batches_tracked.fill_(1000)
    return looped(make, net)


@construct(engine="torch")
def cumulative_norm(make):
    return looped(make, mlp(nn.BatchNorm1d(6, momentum=None)))


@construct(engine="torch")
def of_float64(make):
    return looped(make, mlp().double(), given=[(x.double(), y) for x, y in batches()])


@construct(engine="torch")
def of_bfloat16(make):
    return looped(make, mlp().bfloat16(), given=[(x.bfloat16(), y) for x, y in batches()])


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)).mean(1))


def sequences(lengths):
    torch.manual_seed(1)
    return [(torch.randn(6, length, 4), torch.randint(0, 3, (6,))) for length in lengths]


@construct
def other_lengths(make):
    return looped(make, Sequences(), given=sequences(3 + i % 3 for i in range(STEPS)))


@construct(engine="torch")
def many_lengths(make):
    return looped(make, Sequences(), given=sequences(range(1, 1 + STEPS)))


@construct
def number_without_effect(make):
    net = Sequences()

    def between(step, i):
        net.epoch = i

    net.epoch = 0
    return looped(make, net, given=sequences([3] * STEPS), between=between)


@construct
def layer_left_out_later(make):
    class Net(Sequences):
        warm = True

        def forward(self, x):
            return self.last(torch.tanh(self.first(x)).mean(1) if self.warm else self.first(x).mean(1))

    net = Net()
    net.warm = True

    def between(step, i):
        net.warm = i < 5

    return looped(make, net, given=sequences([3] * STEPS), between=between)


@construct
def layers_that_change_places(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other, self.chosen = mlp(), mlp(nn.Sigmoid()), 0

        def forward(self, x):
            return (self.other if self.chosen else self.one)(x) + 0 * self.other(x)

    net = Net()

    def between(step, i):
        net.chosen = i % 2

    return looped(make, net, between=between)


# Batches of more than tensors


class Named(nn.Module):
    """Takes its inputs by name, and returns its loss if it is given labels, as those of Hugging Face do."""

    def __init__(self, last=lambda x: x):
        super().__init__()
        self.layers, self.scale, self.last = mlp(), nn.Linear(2, 1), last

    def forward(self, x, z=None, labels=None, wide=False):
        found = {"logits": self.last(self.layers(x) * (2 if wide else self.scale(z)))}
        return found if labels is None else {"loss": F.cross_entropy(found["logits"], labels), **found}


def named(sizes=(6, 4, 5)):
    return [{"z": torch.randn(len(x), 2), "x": x, "labels": y, "wide": False} for x, y in batches(sizes)]


@construct
def dicts(make):
    return looped(make, Named(), loss=lambda net, batch: net(**batch)["loss"], given=[(batch,) for batch in named()])


@construct(engine="torch")
def dicts_by_pytorch(make):
    net = Named(last=lambda x: x if x.shape[0] > 1 else 3 * x)
    return looped(make, net, loss=lambda net, batch: net(**batch)["loss"], given=[(batch,) for batch in named((6, 1, 4))])


@construct
def dicts_of_two_kinds(make):
    given = [{**batch, "wide": i % 2 == 0} for i, batch in enumerate(named())]
    return looped(make, Named(), loss=lambda net, batch: net(**batch)["loss"], given=[(batch,) for batch in given])


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    further: list


@construct
def dataclasses_and_lists(make):
    given = [(Pair(x, [x.square(), {"y": y}]),) for x, y in batches()]
    return looped(make, mlp(), loss=lambda net, pair: F.cross_entropy(net(pair.first + pair.further[0]), pair.further[1]["y"]), given=given)


@construct
def inputs_in_a_dict_and_a_target(make):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp()

        def forward(self, inputs):
            return self.layers(inputs["x"] + inputs["shift"])

    return looped(make, Net(), given=[({"shift": x.flip(0), "x": x}, y) for x, y in batches()])
