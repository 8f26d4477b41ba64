# SPDX-License-Identifier: Apache-2.0
"""Small models for the tests of artifacts and blocks."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def tensor(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def model_of(nodes, inputs, outputs, initializers=(), opset=14, ir_version=8, domains=()):
    """inputs, outputs: (name, dims) or (name, dims, element type)."""
    info = [[helper.make_tensor_value_info(name, kind[0] if kind else FLOAT, dims) for name, dims, *kind in values]
            for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *info, list(initializers))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*domain) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def mlp(opset=14, outputs=3, dtype=np.float32):
    """input [batch, 4] -> fc1 -> Relu -> fc2 -> output [batch, outputs]."""
    rng = np.random.default_rng(7)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = [tensor("fc1.weight", rng.standard_normal((5, 4)), dtype), tensor("fc1.bias", np.zeros(5), dtype),
               tensor("fc2.weight", rng.standard_normal((outputs, 5)), dtype),
               tensor("fc2.bias", np.zeros(outputs), dtype)]
    nodes = [helper.make_node("Gemm", ["input", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1),
             helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["output"], "fc2", transB=1)]
    return model_of(nodes, [("input", ["batch", 4], kind)], [("output", ["batch", outputs], kind)], weights, opset)


ALL = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]


def two_heads():
    """input [batch, 4] -> first [batch, 3], second [batch, 2]."""
    rng = np.random.default_rng(8)
    weights = [tensor("a", rng.standard_normal((4, 3))), tensor("b", rng.standard_normal((4, 2)))]
    nodes = [helper.make_node("MatMul", ["input", "a"], ["first"], "a"),
             helper.make_node("MatMul", ["input", "b"], ["second"], "b")]
    return model_of(nodes, [("input", ["batch", 4])], [("first", ["batch", 3]), ("second", ["batch", 2])], weights)


def names(values):
    return [value.name for value in values]
