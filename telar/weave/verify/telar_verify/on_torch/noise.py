"""Random numbers: which generators are used, and what is made equal so that gradients can be compared.

A process that trains on its share of a batch has another dropout mask and another batch statistic than one
process with the whole batch. Both programs therefore run with dropout that keeps everything, and with batch
norm that normalises each sample by itself. What is drawn in a training step by torch's functions (noise of a
GAN, of a VAE, of a diffusion model) is recorded on each rank and given, joined, to the sequential program.
"""
import contextlib
import hashlib
import random
import sys

import torch
import torch.nn.functional as F

GENERATORS = ("torch", "numpy", "random")


def states():
    """A digest of the state of each generator."""
    found = {
        "torch": hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).hexdigest(),
        "random": str(hash(random.getstate())),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        found["numpy"] = hashlib.blake2b(state[1].tobytes() + bytes(str(state[2:]), "ascii"),
                                         digest_size=8).hexdigest()
    return found


def changed(before, after):
    return [name for name in GENERATORS if name in before and before[name] != after.get(name)]


def without_dropout(record):
    def keep_all(function, position):
        def kept(input, *arguments, **options):
            names = ("p", "training") if position == 0 else ("p", "train")
            p = options.get("p", arguments[0] if arguments else 0.5)
            training = options.get(names[1], arguments[1] if len(arguments) > 1 else True)
            if training and p > 0:
                record.neutral.add("dropout")
                return input
            return function(input, *arguments, **options)
        return kept

    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        if hasattr(F, name):
            setattr(F, name, keep_all(getattr(F, name), 0))
        if hasattr(torch, name):
            setattr(torch, name, keep_all(getattr(torch, name), 1))
    attention = getattr(F, "scaled_dot_product_attention", None)
    if attention is not None:
        def attend(query, key, value, attn_mask=None, dropout_p=0.0, *arguments, **options):
            if dropout_p > 0:
                record.neutral.add("dropout")
            return attention(query, key, value, attn_mask, 0.0, *arguments, **options)
        F.scaled_dot_product_attention = attend

    def before_forward(module, inputs):
        if isinstance(module, torch.nn.RNNBase) and module.dropout > 0 and module.training:
            record.neutral.add("dropout")
            module.dropout = 0.0

    torch.nn.modules.module.register_module_forward_pre_hook(before_forward)


def without_batch_statistics(record):
    normalise = F.batch_norm

    def by_sample(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
                  eps=1e-5):
        if not training:
            return normalise(input, running_mean, running_var, weight, bias, training, momentum, eps)
        record.neutral.add("batch norm")
        if input[0].numel() == 1:
            return input if weight is None else input * weight + bias
        return F.group_norm(input, 1, weight, bias, eps)

    F.batch_norm = by_sample


class Draws:
    """What torch's functions draw within a training step. On a rank they are recorded; the sequential program
    receives the ranks' draws: joined along their first dimension, or rank 0's in an evaluation."""

    FUNCTIONS = ("randn", "rand", "randint", "randn_like", "rand_like", "randint_like", "normal", "bernoulli")
    METHODS = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_")

    def __init__(self, record):
        self.record = record
        self.owner = None  # the pass
        self.drawn = None  # of the current batch of a rank; None: not within a loop over batches
        self.replayed = None  # the sequential program: for each rank, the draws of the current batch
        self.joins = False
        self.at = 0
        self.depth = 0
        self.torch_state = ""  # after the last draw that was observed
        self.own = {}  # torch's functions by their place: (module or class, name)
        for name in self.FUNCTIONS:
            self.own[torch, name] = getattr(torch, name)
        for name in self.METHODS:
            self.own[torch.Tensor, name] = getattr(torch.Tensor, name)
        self.observe()

    def observe(self):
        for (where, name), function in self.own.items():
            setattr(where, name, self.observed(function, in_place=where is torch.Tensor))

    @contextlib.contextmanager
    def left_alone(self):
        """Within it, torch has its own functions."""
        for (where, name), function in self.own.items():
            setattr(where, name, function)
        try:
            yield
        finally:
            self.observe()

    def next_batch(self, owner, drawn, replayed, joins):
        """Begins a batch of a pass: observes into the list `drawn`, replays what each rank drew if given."""
        self.owner = owner
        self.drawn, self.replayed, self.joins, self.at = drawn, replayed, joins, 0
        self.torch_state = states()["torch"]

    def end(self):
        self.drawn = self.replayed = self.owner = None

    def are_complete(self):
        """Whether all that was drawn from torch's generator since the batch began was observed."""
        return self.torch_state == states()["torch"]

    def in_place_of(self, drawn):
        """The value that the sequential program receives for its draw, or None: the ranks' draws do not make
        it up."""
        if any(self.at >= len(one) for one in self.replayed):
            return None
        parts = [one[self.at] for one in self.replayed]
        if not self.joins:
            return parts[0] if parts[0].shape == drawn.shape else None
        if any(part.dim() == 0 or part.shape[1:] != parts[0].shape[1:] for part in parts):
            return None
        whole = torch.cat(parts)
        return whole if whole.shape == drawn.shape else None

    def observed(self, function, in_place=False):
        def draw(*arguments, **options):
            if self.drawn is None or self.depth > 0 or options.get("generator") is not None:
                return function(*arguments, **options)
            complete = self.are_complete()
            self.depth += 1
            try:
                drawn = function(*arguments, **options)
            finally:
                self.depth -= 1
            if not torch.is_tensor(drawn):
                return drawn
            if complete:
                self.torch_state = states()["torch"]
            if self.replayed is None:
                self.drawn.append(drawn.detach().clone())
                return drawn
            whole = self.in_place_of(drawn)
            self.at += 1
            if whole is None:
                if self.joins:
                    self.record.exclude("the step draws random numbers that are not one for each sample")
                return drawn
            if in_place:
                with torch.no_grad():
                    return drawn.copy_(whole)
            return whole.to(drawn).requires_grad_(drawn.requires_grad)

        draw.__name__ = getattr(function, "__name__", "draw")
        return draw
