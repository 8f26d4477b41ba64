# SPDX-License-Identifier: Apache-2.0
"""Small networks and batches for the scripts of this folder: the same numbers in every run."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FEATURES, HIDDEN, CLASSES = 12, 16, 4


def _linear(random, name, inputs, outputs):
    weight = random.standard_normal((outputs, inputs)) / np.sqrt(inputs)
    return [
        numpy_helper.from_array(weight.astype(np.float32), f"{name}.weight"),
        numpy_helper.from_array(np.zeros(outputs, np.float32), f"{name}.bias"),
    ]


def _model(nodes, outputs, initializers):
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", FEATURES])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in outputs],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def _gemm(source, layer, result):
    return helper.make_node("Gemm", [source, f"{layer}.weight", f"{layer}.bias"], [result], transB=1)


def classifier():
    """input [batch, 12] -> fc1 -> Relu -> fc2 -> output [batch, 4]"""
    random = np.random.default_rng(1)
    return _model(
        [_gemm("input", "fc1", "h"), helper.make_node("Relu", ["h"], ["a"]), _gemm("a", "fc2", "output")],
        [("output", CLASSES)],
        _linear(random, "fc1", FEATURES, HIDDEN) + _linear(random, "fc2", HIDDEN, CLASSES),
    )


def two_heads():
    """input [batch, 12] -> fc1 -> Tanh -> scores [batch, 4] and estimate [batch, 1]"""
    random = np.random.default_rng(2)
    return _model(
        [
            _gemm("input", "fc1", "h"),
            helper.make_node("Tanh", ["h"], ["a"]),
            _gemm("a", "classes", "scores"),
            _gemm("a", "value", "estimate"),
        ],
        [("scores", CLASSES), ("estimate", 1)],
        _linear(random, "fc1", FEATURES, HIDDEN)
        + _linear(random, "classes", HIDDEN, CLASSES)
        + _linear(random, "value", HIDDEN, 1),
    )


def names(model):
    return [tensor.name for tensor in model.graph.initializer]


def batch(number, size=8):
    """Images and labels that belong together."""
    random = np.random.default_rng(1000 + number)
    labels = random.integers(0, CLASSES, size)
    images = random.standard_normal((size, FEATURES)) + np.eye(CLASSES, FEATURES)[labels] * 2
    return images.astype(np.float32), labels.astype(np.int64)


def estimates(number, size=8):
    """A number for each image of the batch."""
    images, _ = batch(number, size)
    return images.mean(axis=1, keepdims=True)
