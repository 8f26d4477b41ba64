# SPDX-License-Identifier: Apache-2.0
"""Blocks that add nodes of their own, with the helpers that samples take from onnxblock's private modules."""

import tempfile

import networks
import numpy as np
import onnx
import onnxruntime.training.onnxblock._graph_utils as graph_utils
from onnxruntime.training import artifacts, onnxblock
from onnxruntime.training.api import CheckpointState, Module, Optimizer
from onnxruntime.training.onnxblock import blocks


class SmoothDistance(blocks.Block):
    """mean(sqrt((x - target)^2 + 1e-3)) with a Sqrt that blocks do not have."""

    def __init__(self):
        super().__init__()
        self.target, self.sub, self.square = blocks.InputLike("estimate"), blocks.Sub(), blocks.Pow(2.0)
        self.add, self.mean = blocks.Add(), blocks.ReduceMean(keepdims=False)

    def build(self, estimate):
        difference = self.sub(input_name1=estimate, input_name2=self.target("target"))
        squares = self.add(self.square(difference), blocks.Constant(1e-3)())
        root = graph_utils.generate_graph_name("sqrt")
        name = graph_utils.generate_graph_name("Sqrt")
        self.base.graph.node.append(onnx.helper.make_node("Sqrt", [squares], [root], name))
        inferred = [value for value in self.infer_shapes_on_base().graph.value_info if value.name == root]
        print("inferred", len(inferred), inferred[0].type.tensor_type.elem_type)
        return self.mean(input_name=root)


with tempfile.TemporaryDirectory() as folder:
    model = networks.two_heads()
    artifacts.generate_artifacts(
        model,
        requires_grad=["fc1.weight", "fc1.bias", "value.weight", "value.bias"],
        frozen_params=["classes.weight", "classes.bias"],
        loss=SmoothDistance(),
        loss_input_names=["estimate"],
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=folder,
    )
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state)
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(0.05)
    for step in range(6):
        loss = module(networks.batch(step)[0], networks.estimates(step))
        optimizer.step()
        module.lazy_reset_grad()
        print("loss", float(loss))
    print("moved", np.abs(state.parameters["fc1.weight"].data).sum())
