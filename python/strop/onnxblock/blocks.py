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

    A block is called inside onnxblock.base or empty_base, with what build takes; many times and for many models.
    `base` is the onnx.ModelProto of the last call.

    >>> class Squared(onnxblock.Block):
    ...     def build(self, name):
    ...         return onnxblock.blocks.Mul()(name, name)
    >>> with onnxblock.base(model) as accessor:
    ...     name = Squared()("output")
    >>> accessor.model.graph.node[-1].op_type
    'Mul'
    """

    base: onnx.ModelProto

    def __init__(self, temp_file_name: str = "temp.onnx") -> None:
        """temp_file_name has no effect; ValueError for an absolute path."""
        # ONNX Runtime's blocks write a temporary file of this name; these write none.
        if os.path.isabs(temp_file_name):
            raise InvalidArgumentError(f"temp_file_name is a name in the working directory, got {temp_file_name}")

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the nodes to `self.base`; returns a name, or a tuple or list of names."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Builds the block into the model of the context around; returns what build returns.

        Raises:
            Error: ValueError that tells what of the whole model is malformed then; a plain Error outside of
                onnxblock.base and empty_base.
        """
        self.base = accessor.current().model
        logging.debug("Building block: %s", type(self).__name__)
        output = self.build(*args, **kwargs)
        _graph_utils.check(self.base, type(self).__name__)
        return output

    def infer_shapes_on_base(self) -> onnx.ModelProto:
        """A copy of the model being edited that tells the types and shapes of all tensors, as far as they are known.

        A plain Error is raised outside of onnxblock.base and empty_base.
        """
        model = copy_of(accessor.current().model)
        _graph_utils.add_value_infos(model)
        return model


def add_initializer(model: onnx.ModelProto, token: str, value: Any, dtype: int = onnx.TensorProto.FLOAT) -> str:
    """Adds a constant; returns its generated name, onnx::<token>::<n>.

    value: a number or an array, whose shape the constant has. dtype: a TensorProto.DataType.
    """
    return add_named_initializer(model, _graph_utils.generate_graph_name(token), value, dtype)


def add_named_initializer(model: onnx.ModelProto, name: str, value: Any, dtype: int = onnx.TensorProto.FLOAT) -> str:
    """Adds a constant of the given name, which is returned; see add_initializer."""
    array = np.asarray(value)
    model.graph.initializer.append(onnx.helper.make_tensor(name, dtype, array.shape, array.reshape(-1).tolist()))
    return name


def add_node(model: onnx.ModelProto, op: str, inputs: Sequence[str], token: str, node_token: str | None = None,
             domain: str = "", **attributes: Any) -> str:
    """Adds a node with one output; returns the output's generated name, onnx::<token>::<n>.

    op, domain, attributes: what the node computes. inputs: names of tensors. node_token: of the node's own name, by
    default `op`.
    """
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
        """Names of two tensors of one type whose shapes broadcast as in NumPy; returns the name of the result."""
        token = f"{self._op_name.lower()}_output"
        return add_node(self.base, self._op_name, [input_name1, input_name2], token)


class Add(_BinaryOp):
    """a + b, element by element.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Add()("output", "output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] == 2 * outputs["output"]).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Add")


class Sub(_BinaryOp):
    """a - b, element by element.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Sub()("output", "output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] == 0).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Sub")


class Mul(_BinaryOp):
    """a * b, element by element.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Mul()("output", "output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] == outputs["output"] ** 2).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Mul")


class Div(_BinaryOp):
    """a / b, element by element.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Div()("output", "output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] == 1).all())
    True
    """

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
        """The name of a tensor; returns the name of the result."""
        return add_node(self.base, self._op_name, [input_name], f"{self._op_name.lower()}_output",
                        **self._attributes)


class ReduceMean(_UnaryOp):
    """The mean over all axes: of rank 0, or with keepdims of the input's rank, each dimension 1.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.ReduceMean(keepdims=False)("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> outputs[name].shape
    ()
    """

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__("ReduceMean", keepdims=int(keepdims))


class ReduceSum(_UnaryOp):
    """The sum over all axes: of rank 0, or with keepdims of the input's rank, each dimension 1.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.ReduceSum()("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> outputs[name].shape
    (1, 1)
    """

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__("ReduceSum", keepdims=int(keepdims))


class Sigmoid(_UnaryOp):
    """1 / (1 + exp(-x)), element by element; of a float type.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Sigmoid()("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool(((outputs[name] > 0) & (outputs[name] < 1)).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Sigmoid")


class Log(_UnaryOp):
    """The natural logarithm, element by element; of a float type.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Log()(onnxblock.blocks.Sigmoid()("output"))
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] < 0).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Log")


class Neg(_UnaryOp):
    """-x, element by element.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Neg()("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] == -outputs["output"]).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Neg")


class Abs(_UnaryOp):
    """|x|, element by element.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Abs()("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] >= 0).all())
    True
    """

    def __init__(self) -> None:
        super().__init__("Abs")


class Pow(Block):
    """x to a constant power, element by element; of the type of x.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Pow(2.0)("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool(np.allclose(outputs[name], outputs["output"] ** 2))
    True
    """

    def __init__(self, exponent: float) -> None:
        super().__init__()
        self._exponent = exponent

    def build(self, pow_input_name: str) -> str:
        """The name of a tensor; returns the name of the result."""
        dtype = _graph_utils.element_type_of(self.base, pow_input_name)
        exponent = add_initializer(self.base, "pow_exponent", [self._exponent], dtype)
        return add_node(self.base, "Pow", [pow_input_name, exponent], "pow_output")


class Constant(Block):
    """A float32 constant of shape [1], as an initializer.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Add()("output", onnxblock.blocks.Constant(3.0)())
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool((outputs[name] == outputs["output"] + 3).all())
    True
    """

    def __init__(self, value_float: float) -> None:
        super().__init__()
        self._value = value_float

    def build(self) -> str:
        """Returns the name of the constant."""
        return add_initializer(self.base, "initializer", [self._value])


class SequenceConstruct(Block):
    """A list of the given tensors, which are of one type. Strop's own runtime does not have the operator.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.SequenceConstruct()("input", "output")
    >>> list(accessor.model.graph.node[-1].input)
    ['input', 'output']
    """

    def build(self, *sequence_input_names: str) -> str:
        """Names of tensors; returns the name of the list."""
        return add_node(self.base, "SequenceConstruct", sequence_input_names, "sequenceconstruct_output")


class ReduceAllL2(Block):
    """The square root of the sum of all squared elements of all given tensors, float32 of shape [1].

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.ReduceAllL2()("input", "output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> float(outputs[name].reshape(())) > 0
    True
    """

    def build(self, *reduce_node_input_names: str) -> str:
        """Names of tensors; returns the name of the norm."""
        _graph_utils.add_import(self.base, "com.microsoft", 1)
        output = add_node(self.base, "ReduceAllL2", reduce_node_input_names, "reducealll2_output",
                          domain="com.microsoft")
        self.base.graph.value_info.append(
            onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, [1]))
        return output


class Clip(Block):
    """x, but no less than clip_min and no more than clip_max; None, the default, means no bound.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Clip(0.0, 0.5)("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> bool(((outputs[name] >= 0) & (outputs[name] <= 0.5)).all())
    True
    """

    def __init__(self, clip_min: float | None = None, clip_max: float | None = None) -> None:
        super().__init__()
        self._min = clip_min
        self._max = clip_max

    def build(self, clip_input_name: str) -> str:
        """The name of a tensor; returns the name of the result."""
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
    """x as another element type, a TensorProto.DataType such as onnx.TensorProto.FLOAT.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Cast(onnx.TensorProto.DOUBLE)("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> outputs[name].dtype.name
    'float64'
    """

    def __init__(self, to: int) -> None:
        super().__init__()
        self._to = to

    def build(self, cast_input_name: str) -> str:
        """The name of a tensor; returns the name of the result, of the same shape."""
        return add_node(self.base, "Cast", [cast_input_name], "cast.output", to=self._to)


class Linear(Block):
    """alpha * x @ weight + beta * bias: float32 [n, out_features] of x, float32 [n, in_features].

    weight [in_features, out_features] and, unless `bias` is False, bias [out_features] are new initializers with
    standard normal values from numpy.random: numpy.random.seed repeats them.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Linear(3, 5)("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=["output", name])(x)
    >>> outputs[name].shape
    (8, 5)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, alpha: float = 1.0,
                 beta: float = 1.0) -> None:
        super().__init__()
        self._shape = (in_features, out_features)
        self._bias = bias
        self._alpha = float(alpha)
        self._beta = float(beta)

    def build(self, linear_input_name: str) -> str:
        """The name of x; returns the name of the result."""
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
    """A new input of the model, of the type and shape of the tensor `like`.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.InputLike("output")("target")
    >>> [value.name for value in accessor.model.graph.input]
    ['input', 'target']
    """

    def __init__(self, like: str) -> None:
        super().__init__()
        self._like = like

    def build(self, input_name: str | None = None) -> str:
        """The name of the input, by default a generated one; returns it. KeyError without `like` of known type."""
        added = onnx.ValueInfoProto()
        added.CopyFrom(_graph_utils.type_of(self.base, self._like))
        added.name = input_name or _graph_utils.generate_graph_name("input")
        self.base.graph.input.append(added)
        return added.name


class LabelEncoder(Block):
    """Maps each of the keys to the value at the same place, all else to a default (ai.onnx.ml).

    One list of keys and one of values is given, of equal length; the default of the values' type counts. Strop's own
    runtime does not have the operator.

    >>> with onnxblock.base(model) as accessor:
    ...     kinds = onnxblock.blocks.Cast(onnx.TensorProto.INT64)("output")
    ...     name = onnxblock.blocks.LabelEncoder(keys_int64s=[0, 1], values_int64s=[10, 11])(kinds)
    >>> accessor.model.graph.node[-1].op_type
    'LabelEncoder'
    """

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
        """The name of a tensor of the keys' type; returns the name of the result, of the same shape."""
        _graph_utils.add_import(self.base, "ai.onnx.ml", 2)
        given = {name: value for name, value in self._attributes.items() if value is not None}
        return add_node(self.base, "LabelEncoder", [label_encoder_input_name], "label_encoder.output",
                        domain="ai.onnx.ml", **given)


class PassThrough(Block):
    """Adds nothing; returns the names as a tuple.

    >>> with onnxblock.base(model):
    ...     onnxblock.blocks.PassThrough()("output", "input")
    ('output', 'input')
    """

    def build(self, *input_names: str) -> tuple[str, ...]:
        """Names of tensors; returns them. KeyError for none."""
        if not input_names:
            raise UnknownNameError("there is no tensor to pass through")
        return input_names
