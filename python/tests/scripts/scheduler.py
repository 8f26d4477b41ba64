# SPDX-License-Identifier: Apache-2.0
"""A linear schedule: scheduler.py WARMUP TOTAL prints the rate and the loss of every step."""

import sys
import tempfile

import networks
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, LinearLRScheduler, Module, Optimizer

warmup, total = map(int, sys.argv[1:])

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
    module = Module(f"{folder}/training_model.onnx", state)
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    scheduler = LinearLRScheduler(optimizer, warmup, total, 0.02)
    for step in range(10):
        rate = optimizer.get_learning_rate()
        loss = module(*networks.batch(step))
        optimizer.step()
        scheduler.step()
        module.lazy_reset_grad()
        print("rate", rate, "loss", float(loss))
