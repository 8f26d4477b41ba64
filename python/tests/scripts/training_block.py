# SPDX-License-Identifier: Apache-2.0
"""Artifacts by hand: a training block in a base context, an optimizer in an empty one, files saved one by one."""

import tempfile

import networks
import onnx
import onnxruntime.training.onnxblock as onnxblock
from onnxruntime.training.api import CheckpointState, Module, Optimizer


class Classifier(onnxblock.TrainingBlock):
    def __init__(self):
        super().__init__()
        self.loss = onnxblock.loss.CrossEntropyLoss()

    def build(self, output):
        return self.loss(output), output


model = networks.classifier()
before = model.SerializeToString()
block = Classifier()
for name in networks.names(model):
    block.requires_grad(name)
block.requires_grad("fc1.bias", False)
with onnxblock.base(model):
    block(*[value.name for value in model.graph.output])
    training, evaluation = block.to_model_proto()
    parameters = block.parameters()
print("untouched", model.SerializeToString() == before)
print("trainable", *[tensor.name for tensor in parameters[0]], "frozen", *[tensor.name for tensor in parameters[1]])

adamw = onnxblock.optim.AdamW()
with onnxblock.empty_base(opset_version=14) as accessor:
    adamw(parameters)
    optimizer_model = adamw.to_model_proto()
    print("domains", *sorted(opset.domain for opset in accessor.model.opset_import))
print("optimizer", *[value.name for value in optimizer_model.graph.input], len(optimizer_model.graph.output))

with tempfile.TemporaryDirectory() as folder:
    onnx.save(training, f"{folder}/training_model.onnx")
    onnx.save(evaluation, f"{folder}/eval_model.onnx")
    onnx.save(optimizer_model, f"{folder}/optimizer_model.onnx")
    onnxblock.save_checkpoint(parameters, f"{folder}/checkpoint")
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    for step in range(6):
        loss, scores = module(*networks.batch(step))
        optimizer.step()
        module.lazy_reset_grad()
        print("loss", float(loss), *scores[0])
    CheckpointState.save_checkpoint(state, f"{folder}/trained")
    onnxblock.load_checkpoint_to_model(f"{folder}/trained", model)
    for tensor in model.graph.initializer:
        print(tensor.name, *onnx.numpy_helper.to_array(tensor).reshape(-1)[:5])
