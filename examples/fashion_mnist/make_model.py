#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes lenet.onnx: LeNet-5 for Fashion-MNIST, with random weights.

The file beside this script was made once, by it:

    pip install onnx==1.17.0 numpy
    python make_model.py lenet.onnx
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 10


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
    model = helper.make_model(graph, producer_name="make_model",
                              opset_imports=[helper.make_opsetid("", 14)],
                              ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    onnx.save(lenet5(np.random.default_rng(5)), sys.argv[1])


if __name__ == "__main__":
    main()
