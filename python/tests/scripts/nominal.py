# SPDX-License-Identifier: Apache-2.0
"""A device that gets names first, and the values from a server later."""

import os
import tempfile

import networks
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

with tempfile.TemporaryDirectory() as folder:
    model = networks.classifier()
    artifacts.generate_artifacts(
        model,
        requires_grad=networks.names(model)[1:],
        frozen_params=networks.names(model)[:1],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
        nominal_checkpoint=True,
    )
    sizes = [os.path.getsize(f"{folder}/{name}") for name in ("nominal_checkpoint", "checkpoint")]
    print("smaller", sizes[0] < sizes[1])
    server = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    sent = Module(f"{folder}/training_model.onnx", server).get_contiguous_parameters()

    state = CheckpointState.load_checkpoint(f"{folder}/nominal_checkpoint")
    print("names", len(state.parameters), "fc1.weight" in state.parameters)
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    print("sizes", module.get_parameters_size(), module.get_parameters_size(trainable_only=False))
    for attempt in (
        lambda: module(*networks.batch(0)),
        lambda: state.parameters["fc1.weight"],
        lambda: module.copy_buffer_to_parameters(sent, trainable_only=True),
    ):
        try:
            attempt()
            print("done")
        except RuntimeError:
            print("refused")

    module.copy_buffer_to_parameters(sent, trainable_only=False)
    for step in range(6):
        loss = module(*networks.batch(step))
        optimizer.step()
        module.lazy_reset_grad()
        print("loss", float(loss))
    print("eval", float(module.eval()(*networks.batch(9))))
    print("weights", *state.parameters["fc2.weight"].data[0, :5])
