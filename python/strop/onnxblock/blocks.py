# SPDX-License-Identifier: Apache-2.0
"""Blocks: each adds a few nodes to the model and returns the names of what they make."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgumentError, UnknownNameError
from . import _graph_utils
from . import model_accessor as accessor
from ._onnx import onnx
from ._protos import copy_of

# The opset in which the bounds of Clip became inputs.
_CLIP_WITH_INPUTS = 11


class Block(ABC):
    """The base of all blocks. A subclass defines build, which edits `self.base` and returns names of tensors.

    A call, inside onnxblock.base or empty_base, builds the block into the model there and checks the whole model:
    InvalidGraphError tells what is malformed. A block may be called many times and for many models.
    """

    base: onnx.ModelProto  # of the last call

    def __init__(self, temp_file_name: str = "temp.onnx") -> None:
        # ONNX Runtime's blocks write a temporary file of this name; these write none.
        if os.path.isabs(temp_file_name):
            raise InvalidArgumentError(f"temp_file_name is a name in the working directory, got {temp_file_name}")

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the nodes to `self.base`; returns a name, or a tuple or list of names."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.base = accessor.current().model
        logging.debug("Building block: %s", type(self).__name__)
        output = self.build(*args, **kwargs)
        _graph_utils.check(self.base, type(self).__name__)
        return output

    def infer_shapes_on_base(self) -> onnx.ModelProto:
        """A copy of the model being edited that tells the types and shapes of all tensors, as far as they are known."""
        model = copy_of(accessor.current().model)
        _graph_utils.add_value_infos(model)
        return model


def add_initializer(model: onnx.ModelProto, token: str, value: Any, dtype: int = onnx.TensorProto.FLOAT) -> str:
    """Adds a constant of ONNX's element type `dtype`; returns its generated name."""
    return add_named_initializer(model, _graph_utils.generate_graph_name(token), value, dtype)


def add_named_initializer(model: onnx.ModelProto, name: str, value: Any, dtype: int = onnx.TensorProto.FLOAT) -> str:
    """Adds a constant of ONNX's element type `dtype`; returns `name`."""
    array = np.asarray(value)
    model.graph.initializer.append(onnx.helper.make_tensor(name, dtype, array.shape, array.reshape(-1).tolist()))
    return name


def add_node(model: onnx.ModelProto, op: str, inputs: Sequence[str], token: str, node_token: str | None = None,
             domain: str = "", **attributes: Any) -> str:
    """Adds a node with one output; returns the output's generated name."""
    output = _graph_utils.generate_graph_name(token)
    name = _graph_utils.generate_graph_name(node_token or op)
    model.graph.node.append(onnx.helper.make_node(op, inputs, [output], name=name, domain=domain, **attributes))
    return output


class _BinaryOp(Block):
    """Any operator of two inputs and one output, by its name."""

    def __init__(self, op_name: str) -> None:
        super().__init__()
        if not op_name:
            raise InvalidArgumentError("the operator's name is empty")
        self._op_name = op_name

    def build(self, input_name1: str, input_name2: str) -> str:
        token = f"{self._op_name.lower()}_output"
        return add_node(self.base, self._op_name, [input_name1, input_name2], token)


class Add(_BinaryOp):
    """a + b."""

    def __init__(self) -> None:
        super().__init__("Add")


class Sub(_BinaryOp):
    """a - b."""

    def __init__(self) -> None:
        super().__init__("Sub")


class Mul(_BinaryOp):
    """a * b."""

    def __init__(self) -> None:
        super().__init__("Mul")


class Div(_BinaryOp):
    """a / b."""

    def __init__(self) -> None:
        super().__init__("Div")


class _UnaryOp(Block):
    """Any operator of one input and one output, by its name, with attributes."""

    def __init__(self, op_name: str, **attributes: Any) -> None:
        super().__init__()
        if not op_name:
            raise InvalidArgumentError("the operator's name is empty")
        self._op_name = op_name
        self._attributes = attributes

    def build(self, input_name: str) -> str:
        return add_node(self.base, self._op_name, [input_name], f"{self._op_name.lower()}_output",
                        **self._attributes)


class ReduceMean(_UnaryOp):
    """The mean over all axes: rank 0, or the input's rank with keepdims."""

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__("ReduceMean", keepdims=int(keepdims))


class ReduceSum(_UnaryOp):
    """The sum over all axes: rank 0, or the input's rank with keepdims."""

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__("ReduceSum", keepdims=int(keepdims))


class Sigmoid(_UnaryOp):
    """1 / (1 + exp(-x))."""

    def __init__(self) -> None:
        super().__init__("Sigmoid")


class Log(_UnaryOp):
    """The natural logarithm."""

    def __init__(self) -> None:
        super().__init__("Log")


class Neg(_UnaryOp):
    """-x."""

    def __init__(self) -> None:
        super().__init__("Neg")


class Abs(_UnaryOp):
    """|x|."""

    def __init__(self) -> None:
        super().__init__("Abs")


class Pow(Block):
    """x to a constant power, of the type of x."""

    def __init__(self, exponent: float) -> None:
        super().__init__()
        self._exponent = exponent

    def build(self, pow_input_name: str) -> str:
        dtype = _graph_utils.element_type_of(self.base, pow_input_name)
        exponent = add_initializer(self.base, "pow_exponent", [self._exponent], dtype)
        return add_node(self.base, "Pow", [pow_input_name, exponent], "pow_output")


class Constant(Block):
    """A float32 constant of shape [1], as an initializer."""

    def __init__(self, value_float: float) -> None:
        super().__init__()
        self._value = value_float

    def build(self) -> str:
        return add_initializer(self.base, "initializer", [self._value])


class SequenceConstruct(Block):
    """A list of the given tensors."""

    def build(self, *sequence_input_names: str) -> str:
        return add_node(self.base, "SequenceConstruct", sequence_input_names, "sequenceconstruct_output")


class ReduceAllL2(Block):
    """The norm of all elements of all given tensors, float32 of shape [1]."""

    def build(self, *reduce_node_input_names: str) -> str:
        _graph_utils.add_import(self.base, "com.microsoft", 1)
        output = add_node(self.base, "ReduceAllL2", reduce_node_input_names, "reducealll2_output",
                          domain="com.microsoft")
        self.base.graph.value_info.append(
            onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, [1]))
        return output


class Clip(Block):
    """x, but no less than clip_min and no more than clip_max; None: no bound."""

    def __init__(self, clip_min: float | None = None, clip_max: float | None = None) -> None:
        super().__init__()
        self._min = clip_min
        self._max = clip_max

    def build(self, clip_input_name: str) -> str:
        bounds = {"min": self._min, "max": self._max}
        if _graph_utils.opset_of(self.base) < _CLIP_WITH_INPUTS:
            given: dict[str, Any] = {name: float(bound) for name, bound in bounds.items() if bound is not None}
            return add_node(self.base, "Clip", [clip_input_name], "clip_output", **given)
        dtype = _graph_utils.element_type_of(self.base, clip_input_name)
        inputs = [clip_input_name]
        for name, bound in bounds.items():
            inputs.append("" if bound is None else add_initializer(self.base, f"clip_{name}", bound, dtype))
        return add_node(self.base, "Clip", inputs, "clip_output")


class Cast(Block):
    """x as another element type, a TensorProto.DataType such as onnx.TensorProto.FLOAT."""

    def __init__(self, to: int) -> None:
        super().__init__()
        self._to = to

    def build(self, cast_input_name: str) -> str:
        return add_node(self.base, "Cast", [cast_input_name], "cast.output", to=self._to)


class Linear(Block):
    """alpha * x @ weight + beta * bias, x of shape [N, in_features], with new random normal float32 parameters."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, alpha: float = 1.0,
                 beta: float = 1.0) -> None:
        super().__init__()
        self._shape = (in_features, out_features)
        self._bias = bias
        self._alpha = float(alpha)
        self._beta = float(beta)

    def build(self, linear_input_name: str) -> str:
        inputs = [linear_input_name, self._parameter("linear.weight", self._shape)]
        if self._bias:
            inputs.append(self._parameter("linear.bias", self._shape[1:]))
        return add_node(self.base, "Gemm", inputs, "linear.output", "linear", alpha=self._alpha, beta=self._beta)

    def _parameter(self, token: str, shape: tuple[int, ...]) -> str:
        name = _graph_utils.generate_graph_name(token)
        value = np.random.standard_normal(shape).astype(np.float32)
        self.base.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        return name


class InputLike(Block):
    """A new input of the model, of the type and shape of a tensor that is there.

    UnknownNameError, a LookupError, where there is no such tensor of known type.
    """

    def __init__(self, like: str) -> None:
        super().__init__()
        self._like = like

    def build(self, input_name: str | None = None) -> str:
        added = onnx.ValueInfoProto()
        added.CopyFrom(_graph_utils.type_of(self.base, self._like))
        added.name = input_name or _graph_utils.generate_graph_name("input")
        self.base.graph.input.append(added)
        return added.name


class LabelEncoder(Block):
    """Maps each of the keys to the value at the same place, all else to a default (ai.onnx.ml)."""

    def __init__(self, default_float: float = 0.0, default_int64: int = -1, default_string: str = "_Unused",
                 keys_floats: Sequence[float] | None = None, keys_int64s: Sequence[int] | None = None,
                 keys_strings: Sequence[str] | None = None, values_floats: Sequence[float] | None = None,
                 values_int64s: Sequence[int] | None = None, values_strings: Sequence[str] | None = None) -> None:
        super().__init__()
        self._attributes: dict[str, Any] = {
            "default_float": default_float,
            "default_int64": default_int64,
            "default_string": default_string,
            "keys_floats": keys_floats,
            "keys_int64s": keys_int64s,
            "keys_strings": keys_strings,
            "values_floats": values_floats,
            "values_int64s": values_int64s,
            "values_strings": values_strings,
        }

    def build(self, label_encoder_input_name: str) -> str:
        _graph_utils.add_import(self.base, "ai.onnx.ml", 2)
        given = {name: value for name, value in self._attributes.items() if value is not None}
        return add_node(self.base, "LabelEncoder", [label_encoder_input_name], "label_encoder.output",
                        domain="ai.onnx.ml", **given)


class PassThrough(Block):
    """Adds nothing; returns the names as a tuple."""

    def build(self, *input_names: str) -> tuple[str, ...]:
        if not input_names:
            raise UnknownNameError("there is no tensor to pass through")
        return input_names
