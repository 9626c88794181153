"""Models whose families ask for something that those of models.py and further_models.py do not."""

import math

import torch
from torch import nn
from torch.nn import functional as F

FAMILIES = {}


def model(function):
    FAMILIES[function.__name__] = function
    return function


def words(n, length):
    return torch.randint(3, 50, (n, length))


def language(net, length=10):
    return net, lambda module, x: module(input_ids=x, labels=x).loss, lambda n: (words(n, length),)


@model
def bloom():
    """Without a mask, the biases of attention are constants, repeated for each sample and head in axis 0."""
    from transformers import BloomConfig, BloomForCausalLM

    return language(BloomForCausalLM(BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)))


@model
def xlnet():
    """The samples are in axis 1."""
    from transformers import XLNetConfig, XLNetForSequenceClassification

    net = XLNetForSequenceClassification(XLNetConfig(vocab_size=50, d_model=16, n_layer=1, n_head=2, d_inner=32, num_labels=5))
    return net, lambda module, x, y: module(input_ids=x, labels=y).loss, lambda n: (words(n, 8), torch.randint(0, 5, (n,)))


@model
def wav2vec2():
    """It asks for the gradient of the batch."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    net = Wav2Vec2ForSequenceClassification(Wav2Vec2Config(
        vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=(8, 8), conv_stride=(4, 2),
        conv_kernel=(8, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, layerdrop=0.0,
        apply_spec_augment=False, num_labels=5, classifier_proj_size=8))
    return net, lambda module, x, y: module(input_values=x, labels=y).loss, lambda n: (torch.randn(n, 400), torch.randint(0, 5, (n,)))


@model
def patchtst():
    """A batch norm of several rows for each sample."""
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    net = PatchTSTForPrediction(PatchTSTConfig(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, prediction_length=4,
                                               d_model=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=32, num_targets=3))
    return (net, lambda module, x, y: module(past_values=x, future_values=y).loss, lambda n: (torch.randn(n, 32, 3), torch.randn(n, 4, 3)))


@model
def clip():
    """The first tensor that it returns needs a parameter that the loss does not, and is of pairs of samples."""
    from transformers import CLIPConfig, CLIPModel

    each = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    text = each | {"vocab_size": 50, "max_position_embeddings": 20, "bos_token_id": 1, "eos_token_id": 49, "pad_token_id": 0}
    net = CLIPModel(CLIPConfig(text_config=text, vision_config=each | {"image_size": 16, "patch_size": 8}, projection_dim=8))

    def loss(module, x, images):
        found = module(input_ids=x, pixel_values=images)
        return (1 - (found.text_embeds * found.image_embeds).sum(-1)).mean()

    return net, loss, lambda n: (words(n, 6), torch.randn(n, 3, 16, 16))


@model
def decision_transformer():
    """The same, with an output of each sample."""
    from transformers import DecisionTransformerConfig, DecisionTransformerModel

    net = DecisionTransformerModel(DecisionTransformerConfig(state_dim=4, act_dim=2, hidden_size=16, max_ep_len=20, n_layer=1, n_head=2, n_positions=40))

    def loss(module, states, actions, rewards, times):
        found = module(states=states, actions=actions, rewards=rewards, returns_to_go=rewards, timesteps=times,
                       attention_mask=torch.ones(states.shape[0], states.shape[1]))
        return F.mse_loss(found.action_preds, actions)

    return net, loss, lambda n: (torch.randn(n, 5, 4), torch.randn(n, 5, 2), torch.randn(n, 5, 1), torch.arange(5).repeat(n, 1))


@model
def mamba():
    """Labels that PyTorch computes of the batch, whose nodes have other names in evaluation."""
    from transformers import MambaConfig, MambaForCausalLM

    return language(MambaForCausalLM(MambaConfig(vocab_size=50, hidden_size=16, state_size=4, num_hidden_layers=1)), 4)


@model
def stablelm():
    """A rotation of a single number, of which one half has no items."""
    from transformers import StableLmConfig, StableLmForCausalLM

    return language(StableLmForCausalLM(StableLmConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        max_position_embeddings=40, bos_token_id=1, eos_token_id=2)))


@model
def multiscale_vit():
    """Padded volumes of each head."""
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    each = {"kernel_q": [3, 3, 3], "kernel_kv": [3, 3, 3]}
    blocks = [MSBlockConfig(num_heads=1, input_channels=8, output_channels=16, stride_q=[1, 1, 1], stride_kv=[1, 2, 2], **each),
              MSBlockConfig(num_heads=2, input_channels=16, output_channels=16, stride_q=[1, 2, 2], stride_kv=[1, 1, 1], **each)]
    net = MViT(spatial_size=(16, 16), temporal_size=4, block_setting=blocks, residual_pool=True, residual_with_cls_embed=False,
               rel_pos_embed=True, proj_after_attn=True, num_classes=5, stochastic_depth_prob=0.0)
    return net, nn.CrossEntropyLoss(), lambda n: (torch.randn(n, 3, 4, 16, 16), torch.randint(0, 5, (n,)))


@model
def styles():
    """StyleGAN2's convolutions: each sample has filters of its own."""
    class Modulated(nn.Module):
        def __init__(self, inputs, outputs, up):
            super().__init__()
            self.weight, self.style, self.up = nn.Parameter(torch.randn(1, outputs, inputs, 3, 3)), nn.Linear(8, inputs), up

        def forward(self, x, w):
            n, inputs, height, width = x.shape
            filters = self.weight * (self.style(w).view(n, 1, inputs, 1, 1) + 1) / math.sqrt(inputs * 9)
            filters = filters * torch.rsqrt(filters.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
            x = x.reshape(1, n * inputs, height, width)
            if self.up:
                filters = filters.transpose(1, 2).reshape(n * inputs, -1, 3, 3)
                y = F.conv_transpose2d(x, filters, stride=2, padding=1, output_padding=1, groups=n)
            else:
                y = F.conv2d(x, filters.view(-1, inputs, 3, 3), padding=1, groups=n)
            return y.view(n, -1, *y.shape[2:])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.style, self.begin = nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(0.2)), nn.Parameter(torch.randn(1, 6, 4, 4))
            self.first, self.last = Modulated(6, 5, True), Modulated(5, 3, False)

        def forward(self, z):
            w = self.style(z)
            return self.last(F.leaky_relu(self.first(self.begin.repeat(z.shape[0], 1, 1, 1), w), 0.2), w)

    return Net(), nn.MSELoss(), lambda n: (torch.randn(n, 8), torch.randn(n, 3, 8, 8))


@model
def own_latents():
    """BYOL: a target without a gradient, by parameters that the optimizer has and does not change."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.predictor, self.target = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(4, 6)

        def forward(self, x):
            with torch.no_grad():
                target = F.normalize(self.target(x), dim=1)
            return F.normalize(self.predictor(torch.relu(self.encoder(x))), dim=1), target

    def loss(module, x):
        found, target = module(x)
        return (2 - 2 * (found * target).sum(1)).mean()

    return Net(), loss, lambda n: (torch.randn(n, 4),)


@model
def q_learning():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.values, self.target = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2))
            self.target.requires_grad_(False)

        def forward(self, x):
            return self.values(x)

    def loss(module, state, action, reward, following):
        with torch.no_grad():
            target = reward + 0.9 * module.target(following).max(1).values
        return F.smooth_l1_loss(module(state).gather(1, action.unsqueeze(1)).squeeze(1), target)

    return Net(), loss, lambda n: (torch.randn(n, 4), torch.randint(0, 3, (n,)), torch.randn(n), torch.randn(n, 4))
