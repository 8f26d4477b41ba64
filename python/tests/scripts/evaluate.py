# SPDX-License-Identifier: Apache-2.0
"""Evaluates between epochs: loss, scores and accuracy of the eval model."""

import pathlib
import tempfile

import networks
import numpy as np
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    model = networks.classifier()
    artifacts.generate_artifacts(
        model,
        requires_grad=networks.names(model),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=folder,
        prefix="mine_",
        additional_output_names=["output"],
    )
    print(*sorted(path.name for path in folder.iterdir()))
    state = CheckpointState.load_checkpoint(folder / "mine_checkpoint")
    module = Module(folder / "mine_training_model.onnx", state, folder / "mine_eval_model.onnx", device="cpu")
    optimizer = Optimizer(folder / "mine_optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.1)

    for epoch in range(3):
        module.train()
        losses = []
        for step in range(10):
            loss, _ = module(*networks.batch(step))
            optimizer.step()
            module.lazy_reset_grad()
            losses.append(loss)
        print("epoch", epoch, "mean loss", np.mean(losses))

        module.eval()
        print("training", module.training, *module.input_names(), module.output_names()[1:])
        right = total = 0
        for step in range(4):
            images, labels = networks.batch(100 + step, size=5 + step)
            loss, scores = module(images, labels)
            right += (scores.argmax(axis=1) == labels).sum()
            total += len(labels)
            print("eval loss", float(loss), "first scores", *scores[0])
        print("accuracy", right / total)
