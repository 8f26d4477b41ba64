#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the four training artifacts of LeNet-5 for Fashion-MNIST.

The artifacts beside this script were made once, by it, with ONNX Runtime's
last release that could train:

    pip install onnxruntime-training-cpu==1.19.2 onnx==1.17.0 "numpy<2"
    python make_artifacts.py artifacts
"""

import importlib.util
import pathlib
import sys
import types

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 10


def enter_training_package():
    """Makes onnxruntime.training importable without its __init__.

    That would import PyTorch, which none of this needs.
    """
    spec = importlib.util.find_spec("onnxruntime")
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(pathlib.Path(spec.origin).parent / "training")]
    sys.modules["onnxruntime.training"] = package


def lenet5(random):
    """LeNet-5 with ReLU and max pooling: (batch, 1, 28, 28) to 10 logits."""
    nodes, initializers = [], []

    def parameter(name, shape, fan_in):
        # Uniform within 1 / sqrt(fan_in), as PyTorch starts its layers.
        bound = 1 / np.sqrt(fan_in)
        value = random.uniform(-bound, bound, shape).astype(np.float32)
        initializers.append(numpy_helper.from_array(value, name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output,
                                      **attributes))
        return output

    def convolution(name, x, channels_in, channels, pad):
        fan_in = channels_in * 5 * 5
        inputs = [x,
                  parameter(f"{name}.weight", (channels, channels_in, 5, 5),
                            fan_in),
                  parameter(f"{name}.bias", (channels,), fan_in)]
        y = node("Conv", inputs, f"{name}_out", kernel_shape=[5, 5],
                 pads=[pad] * 4)
        y = node("Relu", [y], f"{name}_relu")
        return node("MaxPool", [y], f"{name}_pool", kernel_shape=[2, 2],
                    strides=[2, 2])

    def dense(name, x, features_in, features, output):
        inputs = [x,
                  parameter(f"{name}.weight", (features, features_in),
                            features_in),
                  parameter(f"{name}.bias", (features,), features_in)]
        return node("Gemm", inputs, output, transB=1)

    x = convolution("conv1", "image", 1, 6, pad=2)    # (batch, 6, 14, 14)
    x = convolution("conv2", x, 6, 16, pad=0)         # (batch, 16, 5, 5)
    x = node("Flatten", [x], "features", axis=1)
    x = node("Relu", [dense("fc1", x, 400, 120, "fc1_out")], "fc1_relu")
    x = node("Relu", [dense("fc2", x, 120, 84, "fc2_out")], "fc2_relu")
    dense("fc3", x, 84, CLASSES, "logits")

    graph = helper.make_graph(
        nodes, "lenet5",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT,
                                       ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT,
                                       ["batch", CLASSES])],
        initializers)
    model = helper.make_model(graph, producer_name="make_artifacts",
                              opset_imports=[helper.make_opsetid("", 14)],
                              ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    enter_training_package()
    from onnxruntime.training import artifacts

    # ONNX Runtime 1.19.2 reads no newer files.
    onnx.IR_VERSION = min(onnx.IR_VERSION, 10)
    model = lenet5(np.random.default_rng(5))
    artifacts.generate_artifacts(
        model,
        requires_grad=[tensor.name for tensor in model.graph.initializer],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        additional_output_names=["logits"],
        artifact_directory=str(folder))


if __name__ == "__main__":
    main()
