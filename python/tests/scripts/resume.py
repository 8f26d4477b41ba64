# SPDX-License-Identifier: Apache-2.0
"""Stops in the middle, saves, loads and goes on; a run without the break gives the same."""

import tempfile

import networks
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

RATE = 0.01


def start(folder, checkpoint):
    state = CheckpointState.load_checkpoint(f"{folder}/{checkpoint}")
    module = Module(f"{folder}/training_model.onnx", state)
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(RATE)
    return state, module, optimizer


def train(module, optimizer, steps):
    losses = []
    for step in steps:
        losses.append(float(module(*networks.batch(step))))
        optimizer.step()
        module.lazy_reset_grad()
    return losses


with tempfile.TemporaryDirectory() as folder:
    model = networks.classifier()
    artifacts.generate_artifacts(
        model,
        requires_grad=networks.names(model),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    state, module, optimizer = start(folder, "checkpoint")
    print("before", *train(module, optimizer, range(6)))
    state.properties["epoch"] = 3
    state.properties["best loss"] = 0.75
    state.properties["run"] = "first"
    CheckpointState.save_checkpoint(state, f"{folder}/later", include_optimizer_state=True)
    CheckpointState.save_checkpoint(state, f"{folder}/bare")
    print("without a break", *train(module, optimizer, range(6, 12)))

    state, module, optimizer = start(folder, "later")
    for name, value in state.properties:
        print("property", name, type(value).__name__, value)
    print(len(state.properties), "epoch" in state.properties, "nothing" in state.properties)
    print("resumed", *train(module, optimizer, range(6, 12)))

    _, module, optimizer = start(folder, "bare")
    print("without moments", *train(module, optimizer, range(6, 12)))
