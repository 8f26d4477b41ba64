# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier and prints what every step gives."""

import tempfile

import networks
import numpy as np
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

with tempfile.TemporaryDirectory() as folder:
    model = networks.classifier()
    artifacts.generate_artifacts(
        model,
        requires_grad=networks.names(model),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    print("rate", optimizer.get_learning_rate())
    optimizer.set_learning_rate(0.01)
    print("mode", module.training, "inputs", *module.input_names(), "outputs", len(module.output_names()))

    module.train()
    for step in range(12):
        loss = module(*networks.batch(step))
        if step == 0:
            for name, parameter in state.parameters:
                print("gradient", name, *parameter.grad.shape, np.abs(parameter.grad).sum())
        optimizer.step()
        module.lazy_reset_grad()
        print("loss", type(loss).__name__, loss.dtype, loss.ndim, float(loss))

    # Two batches for one update: gradients add up.
    for _ in range(3):
        losses = [module(*networks.batch(50 + half)) for half in range(2)]
        optimizer.step()
        module.lazy_reset_grad()
        print("two", *map(float, losses))

    for name, parameter in state.parameters:
        print(parameter, parameter.requires_grad, *parameter.data.reshape(-1)[:5])
