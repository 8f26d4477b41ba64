# SPDX-License-Identifier: Apache-2.0
"""OrtValues in and out, and session options: for where onnxruntime itself is installed."""

import tempfile

import networks
import onnxruntime
from onnxruntime import OrtValue
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
        additional_output_names=["output"],
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx", session_options=options)
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.02)
    for step in range(5):
        images, labels = map(OrtValue.ortvalue_from_numpy, networks.batch(step))
        loss, scores = module(images, labels)
        optimizer.step()
        module.lazy_reset_grad()
        print(type(loss).__name__, loss.shape(), loss.data_type(), loss.device_name(), float(loss.numpy()))
        print(type(scores).__name__, scores.shape(), scores.data_type(), *scores.numpy()[0])
    module.eval()
    loss, scores = module(*map(OrtValue.ortvalue_from_numpy, networks.batch(50)))
    print("eval", float(loss.numpy()), *scores.numpy()[-1])
    buffer = OrtValue(module.get_contiguous_parameters())
    print("buffer", buffer.shape(), buffer.data_type(), *buffer.numpy()[:5])
    options.add_session_config_entry("session.disable_prepacking", "0")
    try:
        Module(f"{folder}/training_model.onnx", state, session_options=options)
    except RuntimeError:
        print("refused")
