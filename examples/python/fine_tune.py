#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a bare ONNX classifier on Fashion-MNIST and writes the tuned model.

    python fine_tune.py [--images 60000] [--epochs 3] [--output tuned.onnx]

The images are those of Debian's package dataset-fashion-mnist.
"""
import argparse
import gzip
import pathlib

import numpy as np

import strop

HERE = pathlib.Path(__file__).parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(name):
    """An IDX file: its shape stands in the head."""
    raw = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    rank = raw[3]
    shape = np.frombuffer(raw, ">i4", rank, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def pictures(part, count=None):
    images = read(f"{part}-images-idx3-ubyte")[:count, None].astype(np.float32) / 255
    labels = read(f"{part}-labels-idx1-ubyte")[:count].astype(np.int64)
    return images, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=HERE.parent / "fashion_mnist/lenet.onnx")
    parser.add_argument("--images", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output", default="tuned.onnx")
    arguments = parser.parse_args()

    result = strop.fit(arguments.model, pictures("train", arguments.images), loss="cross_entropy", validation=0.1,
                       epochs=arguments.epochs, batch_size=64, learning_rate=2e-3, warmup_steps=100)
    for epoch, (loss, accuracy) in enumerate(zip(result.history["loss"], result.history["val_accuracy"]), 1):
        print(f"epoch {epoch}: loss {loss:.4f}, validation accuracy {accuracy:.4f}")

    images, labels = pictures("t10k")
    print(f"test accuracy {(result.predict(images).argmax(1) == labels).mean():.4f}")
    result.export(arguments.output)


if __name__ == "__main__":
    main()
