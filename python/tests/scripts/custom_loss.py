# SPDX-License-Identifier: Apache-2.0
"""A loss made of blocks: a weighted sum of the squared and the absolute error, without the base constructor."""

import tempfile

import networks
import onnx
from onnxruntime.training import artifacts, onnxblock
from onnxruntime.training.api import CheckpointState, Module, Optimizer


class WeightedLoss(onnxblock.Block):
    def __init__(self, share):
        self.share = share
        self.squares = onnxblock.loss.MSELoss()
        self.distances = onnxblock.loss.L1Loss(reduction="sum")
        self.add, self.mul = onnxblock.blocks.Add(), onnxblock.blocks.Mul()

    def build(self, scores, estimate):
        first = self.squares(estimate, target_name="target")
        second = self.distances(estimate, target_name="target")
        left = self.mul(onnxblock.blocks.Constant(self.share)(), first)
        right = self.mul(onnxblock.blocks.Constant(1 - self.share)(), second)
        return self.add(left, right)


with tempfile.TemporaryDirectory() as folder:
    model = networks.two_heads()
    artifacts.generate_artifacts(
        model,
        requires_grad=["fc1.weight", "fc1.bias", "value.weight", "value.bias"],
        frozen_params=["classes.weight", "classes.bias"],
        loss=WeightedLoss(0.75),
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    training = onnx.load(f"{folder}/training_model.onnx")
    print("inputs", *[value.name for value in training.graph.input][:2], len(training.graph.output))
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.01)
    for step in range(8):
        images, _ = networks.batch(step)
        loss = module(images, networks.estimates(step))
        optimizer.step()
        module.lazy_reset_grad()
        print("loss", loss.shape, float(loss.item()))
    print("eval", module.eval()(networks.batch(70)[0], networks.estimates(70)).item())
    print("weights", *state.parameters["value.weight"].data[0, :6])
