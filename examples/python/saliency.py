#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws which pixels speak for the class that a model sees.

    python saliency.py MODEL.onnx [--count 6] [--output saliency.png]

MODEL.onnx is what fine_tune.py writes. The picture holds a row of images and,
below each, the gradient of the winning class's score by the pixels, times the
pixels. Needs matplotlib.
"""
import argparse

import numpy as np
from matplotlib.figure import Figure

import strop
from fashion_mnist import pictures

NAMES = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]


def saliency(model, images):
    """The winning classes [n], and pixel times gradient [n, 1, 28, 28]."""
    name = strop.Function(model).output_names()[0]
    scores = strop.Function(model)(images)[0][name]
    classes = scores.argmax(1)
    seed = np.zeros_like(scores)
    seed[np.arange(len(images)), classes] = 1
    gradient = strop.grad(model, [images], "image", of=name, seed=seed).gradients["image"]
    return classes, gradient * images


def draw(images, classes, shares):
    figure = Figure(figsize=(1.3 * len(images), 2.9), layout="constrained")
    axes = figure.subplots(2, len(images), squeeze=False)
    for column, (image, label, share) in enumerate(zip(images, classes, shares)):
        limit = np.abs(share).max()
        axes[0, column].imshow(image[0], cmap="gray_r")
        axes[0, column].set_title(NAMES[label], fontsize=9)
        axes[1, column].imshow(share[0], cmap="RdBu_r", vmin=-limit, vmax=limit)
    for axis in axes.flat:
        axis.set_axis_off()
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--output", default="saliency.png")
    arguments = parser.parse_args()
    images, _ = pictures("t10k", arguments.count)
    classes, shares = saliency(arguments.model, images)
    draw(images, classes, shares).savefig(arguments.output, dpi=90)
    print("classes", *(NAMES[label] for label in classes))


if __name__ == "__main__":
    main()
