# SPDX-License-Identifier: Apache-2.0
"""Trains, then exports a model for inference and runs it."""

import tempfile

import networks
import onnx
from onnx.reference import ReferenceEvaluator
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
    optimizer.set_learning_rate(0.02)
    for step in range(10):
        module(*networks.batch(step))
        optimizer.step()
        module.lazy_reset_grad()

    images, _ = networks.batch(77)
    for outputs in (["output"], ["a", "output"]):
        module.export_model_for_inferencing(f"{folder}/inference.onnx", outputs)
        exported = onnx.load(f"{folder}/inference.onnx")
        onnx.checker.check_model(exported)
        graph = exported.graph
        print(*[value.name for value in graph.input], *[value.name for value in graph.output])
        print(*sorted(tensor.name for tensor in graph.initializer), *[node.op_type for node in graph.node])
        for result in ReferenceEvaluator(exported).run(outputs, {"input": images}):
            print("result", *result.reshape(-1)[:8])
    for wrong in (["nothing"], []):
        try:
            module.export_model_for_inferencing(f"{folder}/inference.onnx", wrong)
        except RuntimeError:
            print("refused", *wrong)
