# SPDX-License-Identifier: Apache-2.0
"""Optimizers as blocks: gradients clipped by their norm, AdamW with its own numbers, clipped SGD."""

import tempfile

import networks
import numpy as np
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer
from onnxruntime.training.onnxblock import optim

OPTIMIZERS = {
    "adamw": optim.AdamW(
        bias_correction=False,
        betas=(0.8, 0.95),
        eps=1e-4,
        weight_decay=0.1,
        clip_grad=optim.ClipGradNorm(0.5),
    ),
    "sgd": optim.SGD(clip_grad=optim.ClipGradNorm(0.25)),
    "plain": optim.AdamW(weight_decay=0.01),
}

for name, block in OPTIMIZERS.items():
    with tempfile.TemporaryDirectory() as folder:
        model = networks.classifier()
        artifacts.generate_artifacts(
            model,
            requires_grad=networks.names(model),
            loss=artifacts.LossType.CrossEntropyLoss,
            optimizer=block,
            artifact_directory=folder,
        )
        state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
        module = Module(f"{folder}/training_model.onnx", state)
        optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
        optimizer.set_learning_rate(0.05)
        for step in range(8):
            loss = module(*networks.batch(step))
            optimizer.step()
            norm = np.sqrt(sum((parameter.grad**2).sum() for _, parameter in state.parameters))
            module.lazy_reset_grad()
            print(name, "loss", float(loss), "norm", norm)
        print(name, *state.parameters["fc1.weight"].data[0, :6])
