"""Further models, each for what the 25 of models.py do not have: masks, carried states, weights that are computed."""

import torch
from torch import nn
from torch.nn import functional as F

from models import images

FURTHER = {}


def model(function):
    FURTHER[function.__name__] = function
    return function


@model
def mixer():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1 = nn.LayerNorm(16)
            self.t = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            self.n2 = nn.LayerNorm(16)
            self.c = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, x):
            x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.c(self.n2(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Conv2d(3, 16, 4, 4)
            self.b = nn.Sequential(Block(), Block())
            self.f = nn.Linear(16, 10)

        def forward(self, x):
            return self.f(self.b(self.p(x).flatten(2).transpose(1, 2)).mean(1))

    return Net(), nn.CrossEntropyLoss(), lambda n: images(n, 3, 16)


@model
def pointnet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1 = nn.Conv1d(3, 16, 1)
            self.b = nn.BatchNorm1d(16)
            self.c2 = nn.Conv1d(16, 32, 1)
            self.f = nn.Linear(32, 4)

        def forward(self, x):
            x = F.relu(self.b(self.c1(x)))
            x = self.c2(x)
            x = torch.max(x, 2, keepdim=True)[0]
            return F.log_softmax(self.f(x.view(-1, 32)), -1)

    return Net(), nn.NLLLoss(), lambda n: (torch.randn(n, 3, 20), torch.randint(0, 4, (n,)))


@model
def padded_transformer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(20, 16, padding_idx=0)
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.t = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.f = nn.Linear(16, 2)

        def forward(self, x):
            pad = x == 0
            h = self.t(self.e(x), src_key_padding_mask=pad)
            k = (~pad).unsqueeze(-1).float()
            return self.f((h * k).sum(1) / k.sum(1))

    return (
        Net(),
        nn.CrossEntropyLoss(),
        lambda n: (
            torch.cat([torch.randint(1, 20, (n, 5)), torch.zeros(n, 2, dtype=torch.long)], 1),
            torch.randint(0, 2, (n,)),
        ),
    )


@model
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    m = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4))
    return (
        m,
        (lambda m, x, y: F.cross_entropy(m(input_ids=x, use_cache=False).logits.view(-1, 50), y.view(-1))),
        lambda n: (torch.randint(0, 50, (n, 16)), torch.randint(0, 50, (n, 16))),
    )


@model
def distilbert_mask():
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    m = DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=50,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=32,
            num_labels=3,
        )
    )

    def mk(n):
        a = torch.ones(n, 12, dtype=torch.long)
        a[:, 9:] = 0
        return torch.randint(0, 50, (n, 12)), a, torch.randint(0, 3, (n,))

    return m, (lambda m, x, mask, y: F.cross_entropy(m(input_ids=x, attention_mask=mask).logits, y)), mk


@model
def dcgan_discriminator():
    m = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 32, 4, 2, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(32, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
        nn.Flatten(0),
    )
    return m, nn.BCELoss(), lambda n: (torch.randn(n, 3, 16, 16), (torch.rand(n) > 0.5).float())


@model
def dcgan_generator():
    m = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    return (
        m,
        (lambda m, z, x: F.mse_loss(m(z), x)),
        lambda n: (torch.randn(n, 8, 1, 1), torch.randn(n, 3, 8, 8)),
    )


@model
def se_resnet():
    class SE(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.p = nn.AdaptiveAvgPool2d(1)
            self.f = nn.Sequential(nn.Linear(c, c // 4), nn.ReLU(), nn.Linear(c // 4, c), nn.Sigmoid())

        def forward(self, x):
            b, c, _, _ = x.size()
            y = self.p(x).view(b, c)
            return x * self.f(y).view(b, c, 1, 1).expand_as(x)

    m = nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.GroupNorm(4, 16),
        nn.ELU(),
        SE(16),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    return m, nn.CrossEntropyLoss(), lambda n: images(n, 3, 16)


@model
def seq2seq_attention():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(20, 8)
            self.enc = nn.GRU(8, 12, batch_first=True)
            self.dec = nn.GRU(8, 12, batch_first=True)
            self.f = nn.Linear(24, 20)

        def forward(self, a, b):
            o, h = self.enc(self.e(a))
            d, _ = self.dec(self.e(b), h)
            w = torch.softmax(torch.bmm(d, o.transpose(1, 2)), -1)
            c = torch.bmm(w, o)
            return self.f(torch.cat([d, c], -1))

    return (
        Net(),
        (lambda m, a, b, y: F.cross_entropy(m(a, b).permute(0, 2, 1), y)),
        lambda n: (torch.randint(0, 20, (n, 7)), torch.randint(0, 20, (n, 6)), torch.randint(0, 20, (n, 6))),
    )


@model
def rnn_tanh():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.r = nn.RNN(4, 8, batch_first=True)
            self.f = nn.Linear(8, 1)

        def forward(self, x):
            o, _ = self.r(x)
            return self.f(o[:, -1])

    return Net(), nn.MSELoss(), lambda n: (torch.randn(n, 6, 4), torch.randn(n, 1))


@model
def lstm_cell_loop():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.r = nn.LSTMCell(4, 8)
            self.f = nn.Linear(8, 1)

        def forward(self, x):
            h = x.new_zeros(x.size(0), 8)
            c = x.new_zeros(x.size(0), 8)
            for t in range(x.size(1)):
                h, c = self.r(x[:, t], (h, c))
            return self.f(h).squeeze(-1)

    return Net(), nn.L1Loss(), lambda n: (torch.randn(n, 5, 4), torch.randn(n))


@model
def deepfm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(40, 6)
            self.l = nn.Embedding(40, 1)
            self.m = nn.Sequential(
                nn.Linear(18, 16), nn.BatchNorm1d(16), nn.PReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
            )
            self.register_buffer("off", torch.tensor([0, 10, 20]))

        def forward(self, x):
            x = x + self.off
            e = self.e(x)
            fm = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
            return torch.sigmoid(self.l(x).sum(1) + fm + self.m(e.flatten(1))).squeeze(1)

    return Net(), nn.BCELoss(), lambda n: (torch.randint(0, 10, (n, 3)), (torch.rand(n) > 0.5).float())


@model
def distillation():
    t = nn.Linear(8, 5)
    for p in t.parameters():
        p.requires_grad_(False)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.s = nn.Linear(8, 5)
            self.t = t

        def forward(self, x):
            return self.s(x), self.t(x)

    def loss(m, x, y):
        a, b = m(x)
        T = 4.0
        return (
            F.cross_entropy(a, y) * 0.5
            + F.kl_div(F.log_softmax(a / T, 1), F.softmax(b / T, 1), reduction="batchmean") * T * T * 0.5
        )

    return Net(), loss, lambda n: (torch.randn(n, 8), torch.randint(0, 5, (n,)))


@model
def cosine_classifier():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(8, 6)
            self.w = nn.Parameter(torch.randn(4, 6))

        def forward(self, x):
            return F.linear(F.normalize(self.f(x)), F.normalize(self.w)) * 10

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 8), torch.randint(0, 4, (n,)))


@model
def triplet():
    m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return (
        m,
        (lambda m, a, p, q: F.triplet_margin_loss(m(a), m(p), m(q))),
        lambda n: (torch.randn(n, 8), torch.randn(n, 8), torch.randn(n, 8)),
    )


@model
def gated_convolutions():
    c = nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 8, 2, dilation=2))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = c
            self.g = nn.Conv1d(8, 8, 1)
            self.o = nn.Conv1d(8, 1, 1)

        def forward(self, x):
            h = self.c(F.pad(x, (2, 0)))
            h = torch.tanh(h) * torch.sigmoid(self.g(h))
            return self.o(F.glu(torch.cat([h, h], 1), 1))

    return Net(), nn.MSELoss(), lambda n: (torch.randn(n, 1, 12), torch.randn(n, 1, 12))


@model
def radiance_field():
    """A NeRF's network: sines and cosines of positions, and densities."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = nn.Linear(63, 64), nn.Linear(64 + 63, 64), nn.Linear(64, 4)

        def forward(self, x):
            frequencies = 2.0 ** torch.arange(10)
            code = torch.cat([x] + [f(x * k) for k in frequencies for f in (torch.sin, torch.cos)], -1)
            h = F.relu(self.second(torch.cat([F.relu(self.first(code)), code], -1)))
            y = self.last(h)
            return torch.cat([torch.sigmoid(y[..., :3]), F.softplus(y[..., 3:])], -1)

    return Net(), nn.MSELoss(), lambda n: (torch.rand(n, 3), torch.rand(n, 4))


@model
def masked_transformer():
    """nn.Transformer with masks of its own, which PyTorch compares with a causal one."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 16)
            self.net = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
            self.out = nn.Linear(16, 50)

        def forward(self, source, target):
            causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
            padding = source == 0
            y = self.net(self.words(source), self.words(target), tgt_mask=causal, src_key_padding_mask=padding,
                         memory_key_padding_mask=padding)
            return self.out(y)

    def data(n):
        source = torch.randint(1, 50, (n, 7))
        source[1:, 5:] = 0
        return source, torch.randint(1, 50, (n, 6)), torch.randint(1, 50, (n, 6))

    return Net(), lambda module, a, b, y: F.cross_entropy(module(a, b).transpose(1, 2), y), data


@model
def sine_network():
    """A SIREN: the sines' arguments are learned."""

    class Sine(nn.Linear):
        def forward(self, x):
            return torch.sin(3 * super().forward(x))

    return nn.Sequential(Sine(2, 32), Sine(32, 32), nn.Linear(32, 1)), nn.MSELoss(), lambda n: (torch.rand(n, 2), torch.rand(n, 1))


@model
def actor_critic():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.policy, self.value = nn.Linear(8, 32), nn.Linear(32, 4), nn.Linear(32, 1)

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return self.policy(h), self.value(h).squeeze(-1)

    def loss(module, x, action, reward):
        logits, value = module(x)
        log = F.log_softmax(logits, -1)
        chosen = log.gather(1, action.unsqueeze(1)).squeeze(1)
        entropy = -(log.exp() * log).sum(-1)
        return (-chosen * (reward - value).detach() + 0.5 * (reward - value) ** 2 - 0.01 * entropy).mean()

    return Net(), loss, lambda n: (torch.randn(n, 8), torch.randint(0, 4, (n,)), torch.randn(n))


@model
def volumes():
    net = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
                        nn.Conv3d(8, 8, (3, 1, 3), stride=(2, 1, 1), dilation=(1, 1, 2), padding=(1, 0, 2), groups=4), nn.ELU(0.5),
                        nn.AvgPool3d((1, 2, 2)), nn.AdaptiveAvgPool3d((2, 1, 1)), nn.Flatten(), nn.Linear(16, 10))
    return net, nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 1, 8, 16, 16), torch.randint(0, 10, (n,)))


@model
def style_transfer():
    class Residual(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.pad = nn.ReflectionPad2d(1)
            self.first, self.second = nn.Conv2d(width, width, 3), nn.Conv2d(width, width, 3)
            self.norm, self.norm2 = nn.InstanceNorm2d(width, affine=True), nn.InstanceNorm2d(width, affine=True)

        def forward(self, x):
            y = F.relu(self.norm(self.first(self.pad(x))))
            return self.norm2(self.second(self.pad(y))) + x

    net = nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), Residual(8),
                        nn.Upsample(scale_factor=2), nn.ReplicationPad2d(1), nn.Conv2d(8, 3, 3))
    return net, nn.MSELoss(), lambda n: (torch.rand(n, 3, 12, 12), torch.rand(n, 3, 24, 24))


@model
def recommendation():
    """DLRM: the dot products of all pairs of features."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bottom = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
            self.tables = nn.ModuleList([nn.Embedding(50, 16) for _ in range(4)])
            self.top = nn.Sequential(nn.Linear(16 + 10, 32), nn.Mish(), nn.Linear(32, 1))

        def forward(self, x, categories):
            x = self.bottom(x)
            features = torch.stack([x] + [table(categories[:, i]) for i, table in enumerate(self.tables)], 1)
            products = torch.bmm(features, features.transpose(1, 2))
            rows, columns = torch.tril_indices(5, 5, -1)
            return self.top(torch.cat([x, products[:, rows, columns]], 1)).squeeze(1)

    def loss(module, x, categories, label):
        return F.binary_cross_entropy_with_logits(module(x, categories), label)

    return Net(), loss, lambda n: (torch.randn(n, 8), torch.randint(0, 50, (n, 4)), torch.randint(0, 2, (n,)).float())


def with_own_loss(module, x, labels):
    return module(input_ids=x, labels=labels).loss


def words(samples, steps, least=0):
    return torch.randint(least, 50, (samples, steps))


def some_ignored(samples, steps):
    labels = words(samples, steps)
    labels[:, ::3] = -100
    return labels


@model
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    net = LlamaForCausalLM(LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                       num_key_value_heads=2, max_position_embeddings=32))
    return net, with_own_loss, lambda n: (words(n, 10), some_ignored(n, 10))


@model
def masked_bert():
    """The word 0 is padding, and its row is also the last layer's."""
    from transformers import BertConfig, BertForMaskedLM

    net = BertForMaskedLM(BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                                     max_position_embeddings=32))
    return net, with_own_loss, lambda n: (words(n, 10), some_ignored(n, 10))


@model
def t5():
    """Labels, moved by one and without what is ignored, are the decoder's input."""
    from transformers import T5Config, T5ForConditionalGeneration

    net = T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0))
    return net, with_own_loss, lambda n: (words(n, 10), some_ignored(n, 7))


@model
def opt():
    from transformers import OPTConfig, OPTForCausalLM

    net = OPTForCausalLM(OPTConfig(vocab_size=50, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                                   max_position_embeddings=32, word_embed_proj_dim=32))

    def loss(module, x, mask, labels):
        return module(input_ids=x, attention_mask=mask, labels=labels).loss

    def data(n):
        mask = torch.ones(n, 10, dtype=torch.long)
        mask[0, 7:] = 0
        return words(n, 10, 2), mask, some_ignored(n, 10)

    return net, loss, data


@model
def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    net = SegformerForSemanticSegmentation(SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=4, drop_path_rate=0.0))
    return (net, lambda module, x, y: module(pixel_values=x, labels=y).loss,
            lambda n: (torch.randn(n, 3, 32, 32), torch.randint(0, 4, (n, 32, 32))))


@model
def bags_of_words():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.sums, self.means = nn.EmbeddingBag(30, 8, mode="sum"), nn.EmbeddingBag(30, 8, padding_idx=0)
            self.largest = nn.EmbeddingBag(30, 8, mode="max")
            self.out = nn.Linear(24, 3)

        def forward(self, x, weights):
            return self.out(torch.cat([self.sums(x, per_sample_weights=weights), self.means(x), self.largest(x)], 1))

    def data(n):
        x = torch.randint(1, 30, (n, 6))
        x[0, 4:] = 0
        return x, torch.rand(n, 6), torch.randint(0, 3, (n,))

    return Net(), lambda module, x, weights, y: F.cross_entropy(module(x, weights), y), data


@model
def arcface():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6))
            self.centres = nn.Parameter(torch.randn(5, 6))

        def forward(self, x, y):
            cosine = F.linear(F.normalize(self.body(x)), F.normalize(self.centres)).clamp(-1 + 1e-7, 1 - 1e-7)
            own = torch.zeros(cosine.size()).scatter_(1, y.view(-1, 1), 1)
            return 4 * torch.where(own.bool(), torch.cos(torch.acos(cosine) + 0.3), cosine)

    return (Net(), lambda module, x, y: F.cross_entropy(module(x, y), y),
            lambda n: (torch.randn(n, 8), torch.randint(0, 5, (n,))))


@model
def tagger():
    """Logarithms of probabilities of each word, as rows."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.steps, self.out = nn.Embedding(20, 8), nn.GRU(8, 12, batch_first=True), nn.Linear(12, 20)

        def forward(self, x):
            return F.log_softmax(self.out(self.steps(self.words(x))[0]), -1)

    def loss(module, x, y):
        log = module(x)
        return F.nll_loss(log.view(-1, 20), y.view(-1), ignore_index=0) + F.nll_loss(log.transpose(1, 2), y) + F.nll_loss(torch.log(log[:, -1].exp() + 1e-3), y[:, -1])

    return Net(), loss, lambda n: (torch.randint(0, 20, (n, 7)), torch.randint(0, 20, (n, 7)))


@model
def flow():
    """RealNVP, with a distribution of PyTorch."""
    class Coupling(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2), nn.Tanh())
            self.move = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, x):
            a, b = x.chunk(2, 1)
            scale = self.scale(a)
            return torch.cat([b * torch.exp(scale) + self.move(a), a], 1), scale.sum(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(Coupling() for _ in range(3))

        def forward(self, x):
            volume = torch.zeros(x.shape[0])
            for part in self.parts:
                x, more = part(x)
                volume += more
            return x, volume

    def loss(module, x):
        z, volume = module(x)
        return -(torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1) + volume).mean()

    return Net(), loss, lambda n: (torch.randn(n, 4),)


@model
def proximal_policy():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.policy, self.value = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 1)

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return self.policy(h), self.value(h).squeeze(-1)

    def loss(module, x, action, before, advantage, reward):
        logits, value = module(x)
        policy = torch.distributions.Categorical(logits=logits)
        ratio = torch.exp(policy.log_prob(action) - before)
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return 0.5 * F.mse_loss(value, reward) - gain - 0.01 * policy.entropy().mean()

    return Net(), loss, lambda n: (torch.randn(n, 6), torch.randint(0, 3, (n,)), -torch.rand(n) - 0.5, torch.randn(n), torch.randn(n))


@model
def capsules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.weights = nn.Conv2d(1, 8, 5, 2), nn.Parameter(0.1 * torch.randn(1, 72, 3, 6, 4))

        def squashed(self, x):
            size = (x**2).sum(-1, keepdim=True)
            return size / (1 + size) * x / (size + 1e-8).sqrt()

        def forward(self, x):
            votes = (self.weights @ self.squashed(F.relu(self.first(x)).view(x.size(0), -1, 4))[:, :, None, :, None]).squeeze(-1)
            routes = torch.zeros(x.size(0), 72, 3, 1)
            for _ in range(2):
                result = self.squashed((F.softmax(routes, 2) * votes).sum(1, keepdim=True))
                routes = routes + (votes * result).sum(-1, keepdim=True)
            return result.squeeze(1).norm(dim=-1)

    def loss(module, x, y):
        sizes, own = module(x), F.one_hot(y, 3)
        return (own * F.relu(0.9 - sizes) ** 2 + 0.5 * (1 - own) * F.relu(sizes - 0.1) ** 2).sum(1).mean()

    return Net(), loss, lambda n: (torch.randn(n, 1, 16, 16), torch.randint(0, 3, (n,)))
