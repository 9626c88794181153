"""Models of the usual kinds, small, each with its loss and a batch: what telar.torch must train as PyTorch does.

Each function returns (module, loss, make), where make(n) is a batch of n samples.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


def images(n, channels, size, classes=10):
    return torch.randn(n, channels, size, size), torch.randint(0, classes, (n,))


@model
def mlp():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return net, nn.CrossEntropyLoss(), lambda n: images(n, 1, 8)


@model
def mnist_convnet():
    """With log_softmax and nll_loss, and dropout of two kinds."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 8, 3, 1)
            self.conv2 = nn.Conv2d(8, 16, 3, 1)
            self.dropout1 = nn.Dropout2d(0.25)
            self.dropout2 = nn.Dropout(0.5)
            self.fc1 = nn.Linear(16 * 36, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x):
            x = F.relu(self.conv2(F.relu(self.conv1(x))))
            x = self.dropout1(F.max_pool2d(x, 2))
            x = torch.flatten(x, 1)
            x = self.dropout2(F.relu(self.fc1(x)))
            return F.log_softmax(self.fc2(x), dim=1)

    return Net(), F.nll_loss, lambda n: images(n, 1, 16)


@model
def vae():
    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.mean, self.log_variance = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4)
            self.fc3, self.fc4 = nn.Linear(4, 32), nn.Linear(32, 64)

        def forward(self, x):
            hidden = F.relu(self.fc1(x.view(-1, 64)))
            mean, log_variance = self.mean(hidden), self.log_variance(hidden)
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, log_variance

    def loss(module, x):
        reconstruction, mean, log_variance = module(x)
        likelihood = F.binary_cross_entropy(reconstruction, x.view(-1, 64), reduction="sum")
        return likelihood - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())

    return Vae(), loss, lambda n: (torch.rand(n, 1, 8, 8),)


@model
def lstm_language_model(words=50, width=16, hidden=24, length=12):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.lstm = nn.LSTM(width, hidden, num_layers=2, dropout=0.2, batch_first=True)
            self.head = nn.Linear(hidden, words)

        def forward(self, tokens):
            return self.head(self.lstm(self.embedding(tokens))[0])

    def loss(module, x, y):
        return F.cross_entropy(module(x).reshape(-1, words), y.reshape(-1))

    return Model(), loss, lambda n: (torch.randint(0, words, (n, length)), torch.randint(0, words, (n, length)))


@model
def siamese():
    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 16))
            self.head = nn.Linear(32, 1)

        def forward(self, a, b):
            return torch.sigmoid(self.head(torch.cat((self.features(a), self.features(b)), 1)))

    def loss(module, a, b, same):
        return F.binary_cross_entropy(module(a, b).squeeze(), same)

    return Siamese(), loss, lambda n: (torch.randn(n, 1, 8, 8), torch.randn(n, 1, 8, 8), (torch.rand(n) > 0.5).float())


@model
def mingpt(words=40, length=12, width=32, heads=4, layers=2):
    class Attention(nn.Module):
        def __init__(self, width, heads, length):
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
            self.heads, self.width = heads, width

        def forward(self, x):
            n, t, c = x.size()
            q, k, v = self.c_attn(x).split(self.width, dim=2)
            q, k, v = (s.view(n, t, self.heads, c // self.heads).transpose(1, 2) for s in (q, k, v))
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = self.dropout(F.softmax(scores, dim=-1)) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(n, t, c))

    class Block(nn.Module):
        def __init__(self, width, heads, length):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = Attention(width, heads, length)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Gpt(nn.Module):
        def __init__(self, longest):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(longest, width)
            self.h = nn.ModuleList([Block(width, heads, longest) for _ in range(layers)])
            self.ln_f = nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, words, bias=False)

        def forward(self, tokens):
            position = torch.arange(0, tokens.size(1), dtype=torch.long, device=tokens.device).unsqueeze(0)
            x = self.wte(tokens) + self.wpe(position)
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    def loss(module, x, y):
        logits = module(x)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))

    return Gpt(length + 4), loss, lambda n: (torch.randint(0, words, (n, length)), torch.randint(0, words, (n, length)))


@model
def unet(width=8, size=16):
    def double(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                             nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.inc, self.down = double(3, width), nn.Sequential(nn.MaxPool2d(2), double(width, 2 * width))
            self.deeper = nn.Sequential(nn.MaxPool2d(2), double(2 * width, 4 * width))
            self.up1, self.conv1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2), double(4 * width, 2 * width)
            self.up2, self.conv2 = nn.Upsample(scale_factor=2, mode="nearest"), double(3 * width, width)
            self.outc = nn.Conv2d(width, 2, 1)

        def forward(self, x):
            x1 = self.inc(x)
            x2 = self.down(x1)
            y = self.up1(self.deeper(x2))
            dy, dx = x2.size(2) - y.size(2), x2.size(3) - y.size(3)
            y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            y = self.conv1(torch.cat([x2, y], dim=1))
            return self.outc(self.conv2(torch.cat([x1, self.up2(y)], dim=1)))

    return Unet(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 3, size, size), torch.randint(0, 2, (n, size, size)))


@model
def autoencoder():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, padding=1), nn.ReLU(),
                        nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1), nn.ReLU(),
                        nn.ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid())

    def loss(module, x):
        return F.mse_loss(module(x), x)

    return net, loss, lambda n: (torch.rand(n, 1, 16, 16),)


@model
def tabular(width=16):
    class Tabular(nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings = nn.ModuleList([nn.Embedding(7, 3), nn.Embedding(4, 2)])
            self.norm = nn.BatchNorm1d(5)
            self.layers = nn.Sequential(nn.Linear(10, width), nn.ReLU(inplace=True), nn.BatchNorm1d(width), nn.Dropout(0.1),
                                        nn.Linear(width, 1))

        def forward(self, categories, numbers):
            embedded = [layer(categories[:, i]) for i, layer in enumerate(self.embeddings)]
            return self.layers(torch.cat([*embedded, self.norm(numbers)], 1)).squeeze(1)

    def make(n):
        categories = torch.stack([torch.randint(0, 7, (n,)), torch.randint(0, 4, (n,))], 1)
        return categories, torch.randn(n, 5), (torch.rand(n) > 0.5).float()

    return Tabular(), nn.BCEWithLogitsLoss(), make


@model
def factorisation():
    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(20, 8), nn.Embedding(30, 8)
            self.user_bias, self.item_bias = nn.Embedding(20, 1), nn.Embedding(30, 1)
            self.mean = nn.Parameter(torch.tensor(3.0))

        def forward(self, user, item):
            dot = (self.users(user) * self.items(item)).sum(1)
            return dot + self.user_bias(user).squeeze() + self.item_bias(item).squeeze() + self.mean

    return Factors(), nn.MSELoss(), lambda n: (torch.randint(0, 20, (n,)), torch.randint(0, 30, (n,)), torch.rand(n) * 5)


@model
def gru_classifier(words=30, width=8, hidden=12, length=9):
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, width, padding_idx=0)
            self.gru = nn.GRU(width, hidden, batch_first=True)
            self.fc = nn.Linear(hidden, 3)

        def forward(self, tokens):
            _, hidden = self.gru(self.embedding(tokens))
            return self.fc(hidden[-1])

    return Classifier(), nn.CrossEntropyLoss(), lambda n: (torch.randint(0, words, (n, length)), torch.randint(0, 3, (n,)))


@model
def tcn():
    class Block(nn.Module):
        def __init__(self, inputs, outputs, dilation):
            super().__init__()
            self.padding = 2 * dilation
            self.conv = nn.Conv1d(inputs, outputs, 3, padding=self.padding, dilation=dilation)
            self.same = nn.Conv1d(inputs, outputs, 1)

        def forward(self, x):
            y = self.conv(x)[:, :, :-self.padding].contiguous()
            return F.relu(F.relu(y) + self.same(x))

    class Tcn(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block(1, 8, 1), Block(8, 8, 2))
            self.head = nn.Linear(8, 10)

        def forward(self, x):
            return self.head(self.blocks(x)[:, :, -1])

    return Tcn(), nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 1, 20), torch.randint(0, 10, (n,)))


@model
def transformer(width=16, heads=2, features=4, length=6):
    """nn.TransformerEncoder, with a class token."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.project = nn.Linear(features, width)
            layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(width, 5)

        def forward(self, x):
            x = torch.cat([self.token.expand(x.size(0), -1, -1), self.project(x)], 1)
            return self.head(self.encoder(x)[:, 0])

    def make(n):
        return torch.randn(n, length, features), torch.randint(0, 5, (n,))

    return Classifier(), nn.CrossEntropyLoss(label_smoothing=0.1), make


@model
def bert(words=60, width=32, heads=4, length=16):
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=words, hidden_size=width, num_hidden_layers=2, num_attention_heads=heads,
                        intermediate_size=2 * width, max_position_embeddings=length + 8, num_labels=3, attn_implementation="sdpa")
    net = BertForSequenceClassification(config)

    def loss(module, x, y):
        return F.cross_entropy(module(input_ids=x).logits, y)

    return net, loss, lambda n: (torch.randint(1, words, (n, length)), torch.randint(0, 3, (n,)))


def of_torchvision(name, size, **options):
    def build():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10, **options), nn.CrossEntropyLoss(), lambda n: images(n, 3, size)

    MODELS[name] = build


for _name in ("resnet18", "resnet50", "densenet121", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0"):
    of_torchvision(_name, 64)  # smaller images leave a batch norm a value for each sample
for _name in ("vgg16", "convnext_tiny", "swin_t"):
    of_torchvision(_name, 32)
of_torchvision("vit_b_16", 32, image_size=32)
of_torchvision("VisionTransformer", 32, image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64)
