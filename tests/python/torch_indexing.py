"""Operations and models that find positions and take elements by their positions, for check_torch.py."""

import torch
from torch import nn
from torch.nn import functional as F

MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


def places(given):
    """Indices 0 to 4 of a batch [N, 4]."""
    return (given > 0).sum(1).clamp(0, 4)


# Of x [N, 5, 6]; those with a second argument take the batch, [N, 4], too.
OPERATIONS = {
    "argmax": lambda x: x * F.one_hot(x.argmax(2), 6),
    "argmin of all": lambda x: x + x.flatten(1).argmin(1).reshape(-1, 1, 1),
    "argmax with its axis": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "max with positions": lambda x: sum(a * b for a, b in [x.max(2, keepdim=True)]),
    "min with positions": lambda x: sum(a * (b + 1) for a, b in [x.min(1)]),
    "position as a number": lambda x: x * x.argmax(1, keepdim=True).float() / 3,
    "position compared": lambda x: x * (x.argmax(2, keepdim=True) == torch.arange(6)),
    "position divided": lambda x: x * (x.flatten(1).argmax(1) // 6 + x.flatten(1).argmax(1) % 6).reshape(-1, 1, 1),
    "whole quotients": lambda x: x * ((49 * x.argmax(1, keepdim=True)) // 49 + (5 * x.argmax(1, keepdim=True)) % 41),
    "topk": lambda x: x.topk(3, 2).values.cumsum(2),
    "least of topk": lambda x: x.topk(2, 1, largest=False)[0] * x.topk(2, 1)[1],
    "sort": lambda x: x.sort(2)[0] * torch.arange(6.0).to(x),
    "sort downwards": lambda x: x.sort(1, descending=True)[0] * torch.arange(5.0).to(x).unsqueeze(1),
    "argsort and back": lambda x: x.gather(1, x.argsort(1).argsort(1)),
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "median": lambda x: x.median(2, keepdim=True).values * x,
    "quantised": lambda x: x + (x[:, :2].mean(2).argmax(1).reshape(-1, 1, 1) - x).detach() * 0.3,
    "scatter of gates": lambda x: torch.zeros_like(x).scatter(2, x.topk(2, 2)[1], x.topk(2, 2)[0].softmax(2)) * x,
    "scatter in place": lambda x: x * torch.full_like(x, -torch.inf).scatter_(-1, x.topk(3).indices, x.topk(3).values).softmax(-1),
    "scatter of a number": lambda x: x * torch.zeros_like(x).scatter_(1, x.argmin(1, keepdim=True), 2.5),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(2, (x > 0).long() + 2 * (x > 0.5).long(), x * x),
    "scatter_add to what is there": lambda x: x.scatter_add(1, x.argsort(1)[:, :2], x[:, 2:4]),
    "index_add": lambda x: x.index_add(1, torch.tensor([0, 3, 3]), x[:, 1:4], alpha=0.5),
    "several items": lambda x, given: x.gather(2, (places(given).reshape(-1, 1, 1) + torch.tensor([0, 1, -1])).clamp(0, 5).expand(-1, 5, 3)),
    "some places": lambda x, given: x.gather(2, (given > 0).long().reshape(-1, 2, 2)),
    "constant items": lambda x: x.gather(2, torch.tensor([[0, 5, 5], [1, 1, 1], [2, 0, 4], [3, 3, 0], [4, 4, 4]]).expand(x.shape[0], 5, 3)),
    "items of each sample": lambda x, given: x[torch.arange(x.shape[0]), places(given)],
    "two indices of each sample": lambda x, given: x[torch.arange(x.shape[0]), places(given), -places(given)].unsqueeze(1),
    "several indices of each sample": lambda x, given: x[torch.arange(x.shape[0]).unsqueeze(1), (given > 0).long() - 2],
    "rows that it has found": lambda x: x[torch.arange(x.shape[0])[:, None], x.sum(2).topk(2, 1).indices],
    "once for each sample": lambda x: torch.bmm(x.repeat_interleave(2, 0), torch.arange(72.0).reshape(2, 6, 6).to(x).repeat(x.shape[0], 1, 1) / 40).reshape(-1, 10, 6),
    "nearest pixels": lambda x, given: F.grid_sample(x.unsqueeze(1), 0.8 * given.reshape(-1, 1, 2, 2), mode="nearest", align_corners=True).squeeze(1),
    "pixels of the batch": lambda x, given: F.grid_sample(x.unsqueeze(1), 0.8 * given.reshape(-1, 1, 2, 2), align_corners=True).squeeze(1),
    "integers of numbers": lambda x: x * (3 * x).long(),
    "truth of numbers": lambda x: x * torch.relu(x).bool(),
}


@model
def vector_quantiser():
    """VQ-VAE: the nearest vectors of a codebook, whose gradient passes straight through."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 6, 4, 2, 1))
            self.codes = nn.Embedding(12, 6)
            self.decoder = nn.Sequential(nn.ConvTranspose2d(6, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))

        def forward(self, x):
            z = self.encoder(x)
            flat = z.permute(0, 2, 3, 1).reshape(-1, 6)
            distances = (flat**2).sum(1, keepdim=True) + (self.codes.weight**2).sum(1) - 2 * flat @ self.codes.weight.t()
            q = self.codes(distances.argmin(1)).view(z.shape[0], z.shape[2], z.shape[3], 6).permute(0, 3, 1, 2)
            extra = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
            return self.decoder(z + (q - z).detach()), extra

    def loss(net, x):
        y, extra = net(x)
        return F.mse_loss(y, x) + extra

    return Net(), loss, lambda n: (torch.randn(n, 3, 16, 16),)


@model
def mixture_of_experts():
    """The two best experts of each token, by the weights of a router."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(30, 12)
            self.router = nn.Linear(12, 4)
            self.up, self.down = nn.Parameter(0.3 * torch.randn(4, 12, 16)), nn.Parameter(0.3 * torch.randn(4, 16, 12))
            self.head = nn.Linear(12, 5)

        def forward(self, tokens):
            x = self.embedding(tokens)
            weights, chosen = self.router(x).topk(2, dim=-1)
            gates = torch.zeros(*x.shape[:-1], 4).to(x).scatter(-1, chosen, weights.softmax(-1))
            experts = torch.einsum("nteh,ehd->nted", torch.einsum("ntd,edh->nteh", x, self.up).relu(), self.down)
            return self.head((x + (experts * gates.unsqueeze(-1)).sum(2)).mean(1))

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randint(0, 30, (n, 7)), torch.randint(0, 5, (n,)))


@model
def weights_of_one_expert():
    """Each sample takes the matrix of its expert."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.matrices, self.head = nn.Linear(8, 3), nn.Parameter(0.3 * torch.randn(3, 8, 10)), nn.Linear(10, 4)

        def forward(self, x):
            weights = self.router(x).softmax(1)
            best, chosen = weights.max(1)
            y = torch.bmm(x.unsqueeze(1), self.matrices[chosen]).squeeze(1)
            return self.head(torch.tanh(y) * best.unsqueeze(1))

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 8), torch.randint(0, 4, (n,)))


@model
def conditional_random_field():
    """Scores of a path of labels by two indices of a matrix, and the sum over all paths."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(40, 8), nn.LSTM(8, 10, batch_first=True)
            self.head, self.moves = nn.Linear(10, 5), nn.Parameter(0.3 * torch.randn(5, 5))

        def forward(self, tokens):
            return self.head(self.lstm(self.embedding(tokens))[0])

    def loss(net, tokens, labels):
        scores = net(tokens)
        own = scores.gather(2, labels.unsqueeze(2)).squeeze(2).sum(1) + net.moves[labels[:, :-1], labels[:, 1:]].sum(1)
        paths = scores[:, 0]
        for step in range(1, scores.shape[1]):
            paths = torch.logsumexp(paths.unsqueeze(2) + net.moves + scores[:, step].unsqueeze(1), 1)
        return (torch.logsumexp(paths, 1) - own).mean()

    return Net(), loss, lambda n: (torch.randint(0, 40, (n, 6)), torch.randint(0, 5, (n, 6)))


@model
def graphs_with_edges():
    """Messages along the edges of each graph, added up at the nodes."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.message, self.update = nn.Linear(4, 9), nn.Linear(13, 9)
            self.head = nn.Linear(9, 3)

        def forward(self, nodes, edges):
            sources, targets = edges[:, :, :1].expand(-1, -1, 4), edges[:, :, 1:].expand(-1, -1, 9)
            messages = self.message(nodes.gather(1, sources)).relu()
            sums = torch.zeros(*nodes.shape[:2], 9).to(nodes).scatter_add(1, targets, messages)
            return self.head(self.update(torch.cat([nodes, sums], 2)).relu().mean(1))

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 7, 4), torch.randint(0, 7, (n, 12, 2)), torch.randint(0, 3, (n,)))


@model
def masked_autoencoder():
    """Patches in the order of noise, of which the first are seen; the loss is that of the others."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.unseen = nn.Linear(6, 8), nn.Parameter(torch.zeros(1, 1, 8))
            self.places = nn.Parameter(0.1 * torch.randn(1, 9, 8))
            self.encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
            self.decoder = nn.Linear(8, 6)

        def forward(self, x, noise):
            order = torch.argsort(noise, dim=1)
            back = torch.argsort(order, dim=1)
            tokens = self.patches(x) + self.places
            seen = self.encoder(tokens.gather(1, order[:, :4].unsqueeze(-1).repeat(1, 1, 8)))
            unseen = self.unseen.repeat(x.shape[0], 5, 1)
            every = torch.cat([seen, unseen], 1).gather(1, back.unsqueeze(-1).expand(-1, -1, 8))
            mask = torch.ones(x.shape[0], 9)
            mask[:, :4] = 0
            return self.decoder(every + self.places), mask.gather(1, back)

    def loss(net, x, noise):
        y, mask = net(x, noise)
        return (((y - x)**2).mean(2) * mask).sum() / mask.sum()

    return Net(), loss, lambda n: (torch.randn(n, 9, 6), torch.rand(n, 9))


@model
def masked_regression():
    """Losses of what a mask chooses, with logarithms that the others do not have."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6), nn.Softplus())

    def loss(net, x, depth):
        y, valid = net(x), depth > 0
        difference = torch.log(y[valid]) - torch.log(depth[valid])
        of_all = F.smooth_l1_loss(y[depth > 0.2], depth[depth > 0.2], beta=0.5) + F.mse_loss(y[valid], depth[valid])
        rows = depth.sum(1) > 1
        other, ones = F.binary_cross_entropy_with_logits, torch.ones_like(y[valid])
        return (difference**2).mean() + other(y[valid], ones) + of_all + (y - depth)[rows].abs().sum() / rows.sum() + difference.abs().sum() / difference.shape[0]

    return net, loss, lambda n: (torch.randn(n, 6), torch.relu(torch.randn(n, 6) + 0.5))


@model
def masked_words():
    """Words of a text and nodes of a graph that have labels."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.gru, self.head = nn.Embedding(30, 8), nn.GRU(8, 12, batch_first=True), nn.Linear(12, 7)

        def forward(self, tokens):
            return self.head(self.gru(self.embedding(tokens))[0])

    def loss(net, tokens, labels):
        scores, known = net(tokens), labels != -100
        likelihood = F.nll_loss(F.log_softmax(scores[known], -1), labels[known])
        return F.cross_entropy(scores[known], labels[known], label_smoothing=0.1) + likelihood

    def make(n):
        return torch.randint(0, 30, (n, 8)), torch.where(torch.rand(n, 8) < 0.4, -100, torch.randint(0, 7, (n, 8)))

    return Net(), loss, make


@model
def last_states():
    """The last states of both directions, and a loss of which one part is a sum and another a mean."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(6, 10, 2, batch_first=True, bidirectional=True), nn.Linear(20, 4)

        def forward(self, x):
            h = self.lstm(x)[1][0]
            return self.head(torch.cat([h[-2], h[-1]], 1))

    def loss(net, x, label):
        scores = net(x)
        return F.cross_entropy(scores, label, reduction="sum") + 0.1 * scores.square().mean() + scores.abs().sum() / x.shape[0]

    return Net(), loss, lambda n: (torch.randn(n, 7, 6), torch.randint(0, 4, (n,)))


@model
def two_views():
    """BYOL: two views of each sample through one batch norm, which moves its statistics twice in a step."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(8, 12), nn.BatchNorm1d(12, momentum=0.3), nn.ReLU(), nn.Linear(12, 6))
            self.predictor = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))

        def forward(self, a, b):
            first, second = self.encoder(a), self.encoder(2 * b + 1)
            return self.predictor(first), self.predictor(second), first.detach(), second.detach()

    def loss(net, a, b):
        of_a, of_b, first, second = net(a, b)
        return -(F.cosine_similarity(of_a, second).mean() + F.cosine_similarity(of_b, first).mean())

    return Net(), loss, lambda n: (torch.randn(n, 8), torch.randn(n, 8))


@model
def spatial_transformer():
    """Images that are turned and moved, each as a small network finds."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Sequential(nn.Conv2d(2, 4, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6))
            nn.init.normal_(self.places[-1].weight, 0, 0.03)
            self.places[-1].bias.data.copy_(torch.tensor([1.2, 0.2, 0.1, -0.3, 0.9, 0.2]))
            self.net = nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))

        def forward(self, x):
            grid = F.affine_grid(self.places(x).view(-1, 2, 3), [x.shape[0], 2, 12, 10], align_corners=False)
            turned = [F.grid_sample(x, grid, padding_mode=padding, align_corners=False) for padding in ("zeros", "border")]
            return self.net(torch.cat(turned, 1))

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 2, 16, 16), torch.randint(0, 4, (n,)))


@model
def spectra():
    """Absolute values of a short-time Fourier transform, which PyTorch computes of the batch."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv1d(9, 12, 3), nn.Linear(12, 4)

        def forward(self, x):
            spectrum = torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True, center=False).abs()
            return self.head(self.conv(torch.log1p(spectrum)).relu().amax(2))

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 64), torch.randint(0, 4, (n,)))


@model
def bilinear_scores():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.w = nn.Linear(5, 6), nn.Linear(5, 6), nn.Parameter(0.3 * torch.randn(3, 6, 6))

        def forward(self, x):
            a, b = self.a(x), self.b(x)
            outer = torch.einsum("bti,btj,bt->bij", a, b, a.sum(2))
            return torch.einsum("bti,kij,btj->bk", a, self.w, b) + outer.mean((1, 2)).unsqueeze(1)

    return Net(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 4, 5), torch.randint(0, 3, (n,)))


@model
def deberta():
    """Attention by relative positions, which gathers several items along an axis."""
    from transformers import DebertaConfig, DebertaForSequenceClassification

    net = DebertaForSequenceClassification(DebertaConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
        relative_attention=True, pos_att_type=["c2p", "p2c"], num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    loss = lambda net, tokens, mask, label: F.cross_entropy(net(input_ids=tokens, attention_mask=mask).logits, label)
    return net, loss, lambda n: (torch.randint(1, 50, (n, 9)), (torch.arange(9).expand(n, 9) < 7).long(), torch.randint(0, 3, (n,)))


@model
def vit_mae():
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    net = ViTMAEForPreTraining(ViTMAEConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4, decoder_hidden_size=12,
        decoder_num_attention_heads=2, decoder_num_hidden_layers=1, decoder_intermediate_size=24, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))
    return net, lambda net, x, noise: net(pixel_values=x, noise=noise).loss, lambda n: (torch.randn(n, 3, 16, 16), torch.rand(n, 16))
