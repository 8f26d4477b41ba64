# SPDX-License-Identifier: Apache-2.0
"""Copies of models, in parts: a protobuf message of 2 GB or more cannot be copied or encoded as a whole."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from ._onnx import onnx

# Tensors above this, in bytes, stay out of what only types are wanted of.
_SMALL = 8192
# Models whose tensors pass this, in bytes, cross to the core in parts.
_MOST_IN_ONE = 1 << 30


def _copy_fields(source: Any, target: Any, skip: Collection[str] = ()) -> None:
    target.SetInParent()
    for field, value in source.ListFields():
        if field.name in skip:
            continue
        if field.name == "initializer":
            for tensor in value:
                _copy_fields(tensor, target.initializer.add())
        elif hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def _copy_without(model: onnx.ModelProto, fields_of_graph: Collection[str]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    _copy_fields(model, copy, ["graph"])
    _copy_fields(model.graph, copy.graph, fields_of_graph)
    return copy


def most_bytes(tensor: onnx.TensorProto) -> int:
    """What a tensor of numbers takes at most; protobuf cannot tell the size of one above 2 GB."""
    return 8 * int(math.prod(tensor.dims))


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """A deep copy, however large the model is."""
    return _copy_without(model, [])


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with the same types in which large initializers are inputs."""
    copy = _copy_without(model, ["initializer"])
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not external and most_bytes(tensor) <= _SMALL:
            copy.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            copy.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return copy


def in_parts(model: onnx.ModelProto) -> tuple[bytes, dict[str, bytes]]:
    """The encoded model, and where it is large the tensors that it names as files, by file name."""
    if sum(most_bytes(tensor) for tensor in model.graph.initializer) < _MOST_IN_ONE:
        return model.SerializeToString(), {}
    frame = _copy_without(model, ["initializer"])
    buffers: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if not tensor.HasField("raw_data") or most_bytes(tensor) <= _SMALL:
            frame.graph.initializer.append(tensor)
            continue
        location = f"strop-tensor-{len(buffers)}"
        buffers[location] = tensor.raw_data
        outside = frame.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims,
                                              data_location=onnx.TensorProto.EXTERNAL)
        outside.external_data.add(key="location", value=location)
    return frame.SerializeToString(), buffers
