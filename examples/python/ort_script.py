#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a bare ONNX classifier on Fashion-MNIST with ONNX Runtime's on-device training.

    python ort_script.py [--images 60000] [--epochs 3] [--output trained]

writes the artifacts, a checkpoint and the model for inference into a folder,
then runs that model. The images are those of Debian's package
dataset-fashion-mnist.
"""
import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime
from fashion_mnist import pictures
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

HERE = pathlib.Path(__file__).parent
BATCH = 64


def make_artifacts(path, folder):
    """Returns the name of the model's output."""
    model = onnx.load(path)
    scores = model.graph.output[0].name
    artifacts.generate_artifacts(
        model,
        requires_grad=[tensor.name for tensor in model.graph.initializer],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(folder),
        additional_output_names=[scores],
    )
    return scores


def batches(images, labels, order):
    for begin in range(0, len(order), BATCH):
        chosen = order[begin:begin + BATCH]
        yield images[chosen], labels[chosen]


def train(module, optimizer, data, order):
    """Returns the mean loss of an epoch."""
    module.train()
    losses = []
    for images, labels in batches(*data, order):
        loss, _ = module(images, labels)
        optimizer.step()
        module.lazy_reset_grad()
        losses.append(loss)
    return np.mean(losses)


def evaluate(module, data):
    """Returns the mean loss and the accuracy."""
    module.eval()
    total, right = 0.0, 0
    for images, labels in batches(*data, np.arange(len(data[1]))):
        loss, scores = module(images, labels)
        total += loss * len(labels)
        right += np.sum(np.argmax(scores, axis=1) == labels)
    return total / len(data[1]), right / len(data[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=HERE.parent / "fashion_mnist/lenet.onnx")
    parser.add_argument("--images", type=int, default=60000)
    parser.add_argument("--test-images", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("trained"))
    arguments = parser.parse_args()

    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    scores = make_artifacts(arguments.model, folder)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)

    training, test = pictures("train", arguments.images), pictures("t10k", arguments.test_images)
    random = np.random.default_rng(0)
    for epoch in range(1, arguments.epochs + 1):
        loss = train(module, optimizer, training, random.permutation(len(training[1])))
        test_loss, accuracy = evaluate(module, test)
        print(f"epoch {epoch}: loss {loss:.6f} test loss {test_loss:.6f} accuracy {accuracy:.4f}")
        state.properties["epoch"] = epoch
        CheckpointState.save_checkpoint(state, folder / "checkpoint", include_optimizer_state=True)

    module.export_model_for_inferencing(folder / "model.onnx", [scores])
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: test[0][:1]})
    print("scores of the first image", *result[0])


if __name__ == "__main__":
    main()
