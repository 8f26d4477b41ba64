# SPDX-License-Identifier: Apache-2.0
"""The networks of the suite, as PyTorch modules; `BUILDERS` names them.

Shapes are written out where PyTorch would read them from its tensors, so that
the ONNX files hold no shape arithmetic.
"""

import torch
import torch.nn.functional as F
from torch import nn


def mlp(*sizes):
    net = nn.Sequential()
    for inputs, outputs in zip(sizes, sizes[1:]):
        if len(net):
            net.append(nn.ReLU())
        net.append(nn.Linear(inputs, outputs))
    return net


def lenet5():
    """LeCun et al. 1998, with ReLU and max pooling."""

    def stage(inputs, outputs, padding):
        conv = nn.Conv2d(inputs, outputs, 5, padding=padding)
        return nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2))

    return nn.Sequential(
        stage(1, 6, 2), stage(6, 16, 0), nn.Flatten(), mlp(400, 120, 84, 10)
    )


# --- Convolutions, each with a batch norm.


class ConvNorm(nn.Sequential):
    """A convolution without a bias, its batch norm, and an activation."""

    def __init__(self, inputs, outputs, kernel=3, activation=nn.ReLU, **more):
        if "padding" not in more:  # the size stays, but for strides
            more["padding"] = kernel // 2
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, bias=False, **more),
            nn.BatchNorm2d(outputs),
        )
        if activation:
            self.append(activation())


def classifier(features, classes):
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes)
    )


def ds_cnn():
    """Zhang et al. 2017, the small one: 49 x 10 features of speech, 12 words
    to tell apart."""
    first = ConvNorm(1, 64, (10, 4), stride=2, padding=(5, 1))
    separable = [
        nn.Sequential(ConvNorm(64, 64, groups=64), ConvNorm(64, 64, 1))
        for _ in range(4)
    ]
    return nn.Sequential(first, *separable, classifier(64, 12))


class BasicBlock(nn.Module):
    """Of He et al. 2015; a projection where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = ConvNorm(inputs, outputs, stride=stride)
        self.second = ConvNorm(outputs, outputs, activation=None)
        self.around = nn.Identity()
        if inputs != outputs:
            self.around = ConvNorm(
                inputs, outputs, 1, activation=None, stride=stride
            )

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.around(x))


def residual_stages(widths, blocks):
    """The first stage keeps the size of images, the others halve it."""
    before = widths[0]
    for width in widths:
        for i in range(blocks):
            halve = i == 0 and width != widths[0]
            yield BasicBlock(before, width, 2 if halve else 1)
            before = width


def resnet20():
    """For images of 32 x 32."""
    blocks = residual_stages((16, 32, 64), 3)
    return nn.Sequential(ConvNorm(3, 16), *blocks, classifier(64, 10))


def resnet18():
    """For ImageNet: 11.7 million parameters."""
    stem = [ConvNorm(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, padding=1)]
    blocks = residual_stages((64, 128, 256, 512), 2)
    return nn.Sequential(*stem, *blocks, classifier(512, 1000))


class InvertedResidual(nn.Module):
    """Of Sandler et al. 2018."""

    def __init__(self, inputs, outputs, stride, factor):
        super().__init__()
        inner = inputs * factor
        self.adds = stride == 1 and inputs == outputs
        self.body = nn.Sequential()
        if factor != 1:
            self.body.append(ConvNorm(inputs, inner, 1, nn.ReLU6))
        self.body.append(
            ConvNorm(inner, inner, 3, nn.ReLU6, stride=stride, groups=inner)
        )
        self.body.append(ConvNorm(inner, outputs, 1, None))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2_backbone():
    # factor, channels, blocks, stride of the first block
    stages = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )  # fmt: skip
    net, before = nn.Sequential(ConvNorm(3, 32, 3, nn.ReLU6, stride=2)), 32
    for factor, channels, blocks, stride in stages:
        for i in range(blocks):
            net.append(
                InvertedResidual(
                    before, channels, stride if i == 0 else 1, factor
                )
            )
            before = channels
    net.append(ConvNorm(before, 1280, 1, nn.ReLU6))
    return net


def mobilenet_v2():
    """Width 1.0, for ImageNet; without dropout."""
    return nn.Sequential(mobilenet_v2_backbone(), classifier(1280, 1000))


def mobilenet_v2_head():
    """Ten classes on a backbone that is frozen, as files for inference hold it:
    batch norms are part of their convolutions."""
    backbone = mobilenet_v2_backbone().eval().requires_grad_(False)
    for layer in [m for m in backbone.modules() if isinstance(m, ConvNorm)]:
        conv, norm = layer[0], layer[1]
        # As if it had been trained.
        norm.running_mean.normal_(std=0.1)
        norm.running_var.uniform_(0.3, 1)
        layer[0] = nn.utils.fuse_conv_bn_eval(conv, norm)
        del layer[1]
    backbone.requires_grad_(False)
    return nn.Sequential(backbone, classifier(1280, 10))


class UNet(nn.Module):
    """Ronneberger et al. 2015 with batch norms, three levels deep."""

    def __init__(self):
        super().__init__()
        widths = (16, 32, 64, 128)
        two = lambda i, o: nn.Sequential(ConvNorm(i, o), ConvNorm(o, o))
        self.entry = two(1, widths[0])
        self.down, self.up, self.merge = (nn.ModuleList() for _ in range(3))
        for wide, narrow in zip(widths[1:], widths):
            self.down.append(nn.Sequential(nn.MaxPool2d(2), two(narrow, wide)))
            self.up.append(nn.ConvTranspose2d(wide, narrow, 2, stride=2))
            self.merge.append(two(2 * narrow, narrow))
        self.exit = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        levels = [self.entry(x)]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up, merge in zip(reversed(self.up), reversed(self.merge)):
            x = merge(torch.cat([up(x), levels.pop()], dim=1))
        return self.exit(x)


# --- Sequences.


class CharacterLstm(nn.Module):
    """Ids as [time, batch]; scores of all positions, one below another."""

    def __init__(self, characters=128, embedding=128, hidden=256):
        super().__init__()
        self.characters = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=2)
        self.scores = nn.Linear(hidden, characters)

    def forward(self, ids):
        states, _ = self.lstm(self.characters(ids))
        return self.scores(states).flatten(0, 1)


class SelfAttention(nn.Module):
    def __init__(self, width, heads, length, causal):
        super().__init__()
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width) for _ in range(4)
        )
        self.length, self.width, self.heads = length, width, heads
        self.causal = causal
        if causal:
            future = torch.ones(length, length).triu(diagonal=1)
            self.register_buffer("mask", -1e9 * future, persistent=False)

    def by_head(self, x):
        size = self.width // self.heads
        return x.view(-1, self.length, self.heads, size).transpose(1, 2)

    def attend(self, q, k, v):
        if not torch.onnx.is_in_onnx_export():
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=self.causal
            )
        # The form that all engines read.
        scores = q @ k.transpose(2, 3) * (self.width // self.heads) ** -0.5
        if self.causal:
            scores = scores + self.mask
        return scores.softmax(-1) @ v

    def forward(self, x):
        parts = (f(x) for f in (self.query, self.key, self.value))
        y = self.attend(*(self.by_head(part) for part in parts))
        return self.output(
            y.transpose(1, 2).reshape(-1, self.length, self.width)
        )


class Block(nn.Module):
    """Attention and two dense layers; norms stand before both, or behind."""

    def __init__(self, width, heads, length, is_decoder):
        super().__init__()
        self.norms_first = is_decoder
        self.attention = SelfAttention(width, heads, length, is_decoder)
        self.dense = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        if self.norms_first:
            x = x + self.attention(self.norm1(x))
            return x + self.dense(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.dense(x))


class Embeddings(nn.Module):
    """Of ids, [batch, time], and of their places."""

    def __init__(self, words, places, length, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(places, width)
        self.register_buffer("range", torch.arange(length), persistent=False)

    def forward(self, ids):
        return self.words(ids) + self.places(self.range)


def small_weights(module):
    """The initial weights of both papers."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)


class Bert(nn.Module):
    """Devlin et al. 2018: two classes from the first of 128 places. Texts have
    no padding and no second sentence; dropout is left out."""

    def __init__(self, layers, width, length=128):
        super().__init__()
        self.embeddings = Embeddings(30522, 512, length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(
            *(Block(width, width // 64, length, False) for _ in range(layers))
        )
        self.pooler, self.scores = nn.Linear(width, width), nn.Linear(width, 2)
        self.apply(small_weights)

    def forward(self, ids):
        x = self.blocks(self.norm(self.embeddings(ids)))
        return self.scores(self.pooler(x[:, 0]).tanh())


class Gpt(nn.Module):
    """A decoder of 10 million parameters over 65 characters; the embedding
    gives the scores too. Scores of all positions, one below another."""

    def __init__(self, layers=6, width=384, heads=6, length=256):
        super().__init__()
        self.embeddings = Embeddings(65, length, length, width)
        self.blocks = nn.Sequential(
            *(Block(width, heads, length, True) for _ in range(layers))
        )
        self.norm = nn.LayerNorm(width)
        self.apply(small_weights)

    def forward(self, ids):
        x = self.norm(self.blocks(self.embeddings(ids)))
        return F.linear(x, self.embeddings.words.weight).flatten(0, 1)


BUILDERS = {
    "mlp_tab_b1": lambda: mlp(32, 64, 32, 1),
    "mlp_tab_b32": lambda: mlp(32, 64, 32, 1),
    "mlp_mnist": lambda: mlp(784, 500, 10),
    "lenet5": lenet5,
    "ds_cnn": ds_cnn,
    "resnet20": resnet20,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v2_head": mobilenet_v2_head,
    "resnet18": resnet18,
    "unet": UNet,
    "lstm": CharacterLstm,
    "bert_tiny": lambda: Bert(layers=2, width=128),
    "bert_mini": lambda: Bert(layers=4, width=256),
    "distilbert": lambda: Bert(layers=6, width=768),
    "gpt_10m": Gpt,
}
