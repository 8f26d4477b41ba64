# SPDX-License-Identifier: Apache-2.0
"""The networks of make_architectures.py: each of its kind, with few channels."""
import contextlib
import math
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch import nn


@dataclass
class Case:
    build: Callable[[], nn.Module]
    feeds: Callable[[int], dict]  # batch size -> inputs, then labels or target
    loss: str
    opset: int
    rate: float  # of SGD; a power of two, which float32 holds
    seed: int
    fold: bool = True  # whether the exporter folds transposes into weights
    change: Callable = field(default=lambda model: None)  # of the exported file
    batches: tuple = (4, 3, 5, 4)


@contextlib.contextmanager
def double_precision():
    """New tensors of the modules (masks, states) are float64."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def images(size, channels=3, classes=5):
    def feeds(n):
        return dict(input=torch.randn(n, channels, size, size),
                    labels=torch.randint(0, classes, (n,)))
    return feeds


def conv_bn(cin, cout, kernel=3, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups,
                        bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([act()] if act else []))


# --- ResNet (He et al. 2015): basic blocks, one with a projection

class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.first = conv_bn(cin, cout, 3, stride)
        self.second = conv_bn(cout, cout, act=None)
        self.shortcut = (conv_bn(cin, cout, 1, stride, act=None)
                         if stride > 1 or cin != cout else nn.Identity())

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


def resnet():
    return nn.Sequential(
        conv_bn(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1),
        BasicBlock(8, 8, 1), BasicBlock(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


# --- MobileNetV2 (Sandler et al. 2018): inverted residuals, ReLU6

class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        hidden = cin * expand
        self.residual = stride == 1 and cin == cout
        self.layers = nn.Sequential(
            conv_bn(cin, hidden, 1, act=nn.ReLU6),
            conv_bn(hidden, hidden, 3, stride, hidden, act=nn.ReLU6),
            conv_bn(hidden, cout, 1, act=None))

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 8, 3, 2, act=nn.ReLU6), InvertedResidual(8, 8, 1, 2),
            InvertedResidual(8, 12, 2, 3), InvertedResidual(12, 12, 1, 3),
            conv_bn(12, 24, 1, act=nn.ReLU6))
        self.classifier = nn.Linear(24, 5)

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


# --- U-Net (Ronneberger et al. 2015)

class UNet(nn.Module):
    def __init__(self, up, classes):
        super().__init__()
        self.down1, self.down2 = conv_bn(3, 6), conv_bn(6, 12)
        self.bottom = conv_bn(12, 16)
        self.up2, self.join2 = up(16, 12), conv_bn(24, 12)
        self.up1, self.join1 = up(12, 6), conv_bn(12, 6)
        self.head = nn.Conv2d(6, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], 1))
        return self.head(a)


class Resized(nn.Module):
    def __init__(self, cin, cout, **how):
        super().__init__()
        self.how, self.conv = how, nn.Conv2d(cin, cout, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, **self.how))


def unet_transposed():
    return UNet(lambda cin, cout: nn.ConvTranspose2d(cin, cout, 2, 2), 3)


def unet_resized():
    modes = iter([dict(mode="bilinear", align_corners=False),
                  dict(mode="nearest")])
    return UNet(lambda cin, cout: Resized(cin, cout, **next(modes)), 1)


def pixel_labels(n):
    return dict(input=torch.randn(n, 3, 12, 12),
                labels=torch.randint(0, 3, (n, 12, 12)))


def pixel_masks(n):
    return dict(input=torch.randn(n, 3, 12, 12),
                target=torch.randint(0, 2, (n, 1, 12, 12)).float())


# --- Transformers

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        n, t, width = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2)
                   for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        if mask is not None:
            scores = mask(scores)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Block(nn.Module):
    """With the normalization first (ViT, GPT) or last (BERT)."""

    def __init__(self, width, heads, first):
        super().__init__()
        self.first = first
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(),
                                 nn.Linear(2 * width, width))

    def forward(self, x, mask=None):
        if self.first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class ViT(nn.Module):
    """Dosovitskiy et al. 2020."""

    def __init__(self, width=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width))
        self.blocks = nn.ModuleList(Block(width, 2, True) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        x = torch.cat([token, x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Bert(nn.Module):
    """Devlin et al. 2018, with the additive mask of its first release."""

    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(40, width)
        self.positions, self.kinds = nn.Embedding(12, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=2.0 ** -36)
        self.blocks = nn.ModuleList(Block(width, 2, False) for _ in range(2))
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 3)
        self.register_buffer("order", torch.arange(12)[None])

    def forward(self, input_ids, token_type_ids, attention_mask):
        hidden = (1.0 - attention_mask[:, None, None, :].to(self.norm.weight.dtype)) * -10000.0
        x = self.words(input_ids) + self.kinds(token_type_ids)
        x = self.norm(x + self.positions(self.order[:, :input_ids.shape[1]]))
        for block in self.blocks:
            x = block(x, lambda scores: scores + hidden)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


def sentences(n, length=9):
    lengths = torch.randint(3, length + 1, (n, 1))
    mask = (torch.arange(length)[None] < lengths).long()
    return dict(input_ids=torch.randint(0, 40, (n, length)) * mask,
                token_type_ids=torch.randint(0, 2, (n, length)),
                attention_mask=mask, labels=torch.randint(0, 3, (n,)))


class Gpt(nn.Module):
    """Radford et al. 2018: the token embedding is the output layer too."""

    def __init__(self, width=32, length=8):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(30, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 2, True) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 30, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.25)
        future = torch.ones(length, length).triu(1).bool()
        self.register_buffer("future", future[None, None])

    def forward(self, input_ids):
        x = self.tokens(input_ids) + self.positions.weight
        for block in self.blocks:
            x = block(x, lambda s: s.masked_fill(self.future, -math.inf))
        return self.head(self.norm(x)).transpose(1, 2)


def texts(n):
    text = torch.randint(0, 30, (n, 9))
    return dict(input_ids=text[:, :-1].contiguous(), labels=text[:, 1:].contiguous())


# --- Sequences

class CausalConv(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.pad = 2 * dilation
        conv = nn.Conv1d(cin, cout, 3, dilation=dilation)
        self.conv = nn.utils.weight_norm(conv)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        y = self.conv(F.pad(x, (self.pad, 0)))
        return F.relu(y) + self.skip(x)


def tcn():
    """Bai et al. 2018: dilated causal convolutions with weight norm."""
    return nn.Sequential(CausalConv(2, 12, 1), CausalConv(12, 12, 2),
                         CausalConv(12, 12, 4), nn.Conv1d(12, 1, 1))


def series(n):
    return dict(input=torch.randn(n, 2, 20), target=torch.randn(n, 1, 20))


class Recurrent(nn.Module):
    """Two layers in both directions over embedded words."""

    def __init__(self, kind, width=8):
        super().__init__()
        self.words = nn.Embedding(20, width)
        self.layers = kind(width, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 4)

    def forward(self, input_ids):
        y, _ = self.layers(self.words(input_ids))
        return self.head(y.mean(1))


def words(n):
    return dict(input_ids=torch.randint(0, 20, (n, 7)),
                labels=torch.randint(0, 4, (n,)))


# --- Group normalization (Wu and He 2018)

def group_norm_net():
    def layer(cin, cout, stride):
        return [nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
                nn.GroupNorm(4, cout), nn.SiLU()]
    return nn.Sequential(*layer(3, 8, 1), *layer(8, 16, 2), nn.AvgPool2d(3, 2, 1),
                         nn.Flatten(), nn.Linear(16 * 9, 5))


def use_group_normalization(model):
    """The exporter's five nodes as the one op that opset 21 has for them."""
    graph = model.graph
    made = {n.output[0]: n for n in graph.node}
    reader = {i: n for n in graph.node for i in n.input}
    values = {t.name: t for t in graph.initializer}
    for norm in [n for n in graph.node if n.op_type == "InstanceNormalization"]:
        before, after = made[norm.input[0]], reader[norm.output[0]]
        scale, shift = reader[after.output[0]], reader[reader[after.output[0]].output[0]]
        factors = []
        for node in (scale, shift):
            name = next(i for i in node.input if i in values)
            flat = numpy_helper.to_array(values[name]).reshape(-1)
            values[name].CopyFrom(numpy_helper.from_array(flat, name))
            factors.append(name)
        at = list(graph.node).index(shift)
        graph.node.insert(at, helper.make_node(
            "GroupNormalization", [before.input[0], *factors], [shift.output[0]],
            num_groups=4, epsilon=1e-5))
        shape = made[after.input[1]]
        for node in (before, norm, after, scale, shift, shape):
            graph.node.remove(node)


# --- A quantized base with a float stem and head

class Quantized(nn.Module):
    """A convolution whose weights and inputs are held in 8 bits."""

    weight_scales = (2.0 ** -7, 2.0 ** -8, 2.0 ** -6, 2.0 ** -7)
    input_scale = 2.0 ** -5

    def __init__(self, cin, cout):
        super().__init__()
        self.scales = torch.tensor((self.weight_scales * cout)[:cout])
        integers = torch.randint(-100, 100, (cout, cin, 3, 3))
        self.weight = nn.Parameter(integers * self.scales[:, None, None, None],
                                   requires_grad=False)
        self.bias = nn.Parameter(torch.randint(-2000, 2000, (cout,)) * self.scales * self.input_scale,
                                 requires_grad=False)

    def forward(self, x):
        x = torch.fake_quantize_per_tensor_affine(x, self.input_scale, 3, -128, 127)
        return F.conv2d(x, self.weight, self.bias, padding=1)


def qdq():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), Quantized(6, 8), nn.ReLU(),
        Quantized(8, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5))


def quantize_weights(model):
    """The base's weights and biases as integers behind DequantizeLinear."""
    graph = model.graph
    values = {t.name: t for t in graph.initializer}
    for conv in [n for n in graph.node if n.op_type == "Conv"][1:]:
        at = list(graph.node).index(conv)
        weight, bias = (numpy_helper.to_array(values[n]) for n in conv.input[1:])
        scales = np.float32((Quantized.weight_scales * len(bias))[:len(bias)])
        forms = [(weight, scales, np.int8),
                 (bias, scales * np.float32(Quantized.input_scale), np.int32)]
        for i, (value, scale, kind) in enumerate(forms, 1):
            name = conv.input[i]
            shaped = scale.reshape(-1, *[1] * (value.ndim - 1))
            integers = np.rint(value / shaped).astype(kind)
            assert (integers * shaped == value).all()
            graph.initializer.remove(values[name])
            graph.initializer.extend([
                numpy_helper.from_array(integers, name + "_quantized"),
                numpy_helper.from_array(scale, name + "_scale"),
                numpy_helper.from_array(np.zeros(len(scale), kind), name + "_zero")])
            graph.node.insert(at, helper.make_node(
                "DequantizeLinear", [name + s for s in ("_quantized", "_scale", "_zero")],
                [name], axis=0))


CASES = {
    "resnet": Case(resnet, images(16), "cross_entropy", 13, 2.0 ** -4, 1),
    "mobilenet_v2": Case(MobileNetV2, images(16), "cross_entropy", 9, 2.0 ** -4, 2),
    "unet_transposed": Case(unet_transposed, pixel_labels, "cross_entropy", 13, 2.0 ** -3, 3),
    "unet_resized": Case(unet_resized, pixel_masks, "bce", 17, 2.0 ** -3, 4),
    "vit": Case(ViT, images(16), "cross_entropy", 17, 2.0 ** -4, 5),
    "bert": Case(Bert, sentences, "cross_entropy", 17, 2.0 ** -4, 6),
    "gpt": Case(Gpt, texts, "cross_entropy", 21, 2.0 ** -4, 7, fold=False),
    "tcn": Case(tcn, series, "mse", 9, 2.0 ** -4, 8, fold=False),
    "lstm": Case(lambda: Recurrent(nn.LSTM), words, "cross_entropy", 13, 2.0 ** -2, 9),
    "gru": Case(lambda: Recurrent(nn.GRU), words, "cross_entropy", 17, 2.0 ** -2, 10),
    "group_norm": Case(group_norm_net, images(12), "cross_entropy", 13, 2.0 ** -4, 11),
    "group_norm_21": Case(group_norm_net, images(12), "cross_entropy", 21, 2.0 ** -4, 13,
                          change=use_group_normalization),
    "qdq": Case(qdq, images(12), "cross_entropy", 21, 2.0 ** -4, 12, change=quantize_weights),
}
