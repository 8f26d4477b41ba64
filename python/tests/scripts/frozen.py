# SPDX-License-Identifier: Apache-2.0
"""Trains the head of a network alone."""

import tempfile

import networks
import numpy as np
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

with tempfile.TemporaryDirectory() as folder:
    model = networks.classifier()
    head = ["fc2.weight", "fc2.bias"]
    artifacts.generate_artifacts(
        model,
        requires_grad=head,
        frozen_params=[name for name in networks.names(model) if name not in head] + ["no.such.buffer"],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    before = {name: parameter.data.copy() for name, parameter in state.parameters}
    for name, parameter in state.parameters:
        print(name, parameter.requires_grad, parameter.grad is None, before[name].shape)
    module = Module(f"{folder}/training_model.onnx", state)
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.02)
    for name, parameter in state.parameters:
        print(name, parameter.grad is None or np.abs(parameter.grad).sum())
    for step in range(8):
        loss = module(*networks.batch(step))
        optimizer.step()
        module.lazy_reset_grad()
        print("loss", float(loss))
    for name, parameter in state.parameters:
        print(name, "moved by", np.abs(parameter.data - before[name]).sum())
