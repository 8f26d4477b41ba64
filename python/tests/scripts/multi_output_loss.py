# SPDX-License-Identifier: Apache-2.0
"""Two heads, two losses, one sum: all three are outputs, and intermediate tensors of the model too."""

import tempfile

import networks
from onnxruntime.training import artifacts
from onnxruntime.training import onnxblock
from onnxruntime.training.api import CheckpointState, Module, Optimizer


class TwoLosses(onnxblock.Block):
    def __init__(self):
        super().__init__()
        self._classes = onnxblock.loss.CrossEntropyLoss(ignore_index=-100)
        self._value = onnxblock.loss.MSELoss()
        self._add = onnxblock.blocks.Add()

    def build(self, scores, estimate):
        classes = self._classes(scores, labels_name="labels")
        value = self._value(estimate, target_name="wanted")
        return self._add(classes, value), classes, value


with tempfile.TemporaryDirectory() as folder:
    model = networks.two_heads()
    artifacts.generate_artifacts(
        model,
        requires_grad=networks.names(model),
        loss=TwoLosses(),
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
        additional_output_names=["estimate", "a"],
    )
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.01)
    print("inputs", *module.input_names(), "outputs", *module.output_names())
    for step in range(8):
        images, labels = networks.batch(step)
        labels[0] = -100
        total, classes, value, estimate, hidden = module(images, labels, networks.estimates(step))
        optimizer.step()
        module.lazy_reset_grad()
        print("losses", float(total), float(classes), float(value), estimate.shape, *hidden[0, :3])
    module.eval()
    results = module(*networks.batch(60), networks.estimates(60))
    print("eval", type(results).__name__, len(results), *map(float, results[:3]))
