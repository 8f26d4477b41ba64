#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a bare ONNX classifier on Fashion-MNIST and writes the tuned model.

    python fine_tune.py [--images 60000] [--epochs 3] [--output tuned.onnx]

The images are those of Debian's package dataset-fashion-mnist.
"""
import argparse
import pathlib

import strop
from fashion_mnist import pictures

HERE = pathlib.Path(__file__).parent


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
