# SPDX-License-Identifier: Apache-2.0
"""Artifacts whose loss or optimizer is made of blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from typing import Any

from ._errors import InvalidArgumentError, TypeMismatchError
from .onnxblock import Block, _graph_utils, _maker, blocks, loss
from .onnxblock._onnx import onnx
from .onnxblock._protos import most_bytes
from .onnxblock.model_accessor import ModelAccessor, base, empty_base

# Where tensors beside a model stay there: in memory they would pass what a protobuf message holds.
_MOST_TO_LOAD = 1 << 30


def make_with_blocks(model: Any, options: Any, loss_block: Block | Enum | None, optimizer: Block | Enum | None,
                     loss_inputs: Sequence[str] | None) -> Any:
    """The artifacts as the core's object; `options` say all else."""
    proto, path = _read(model)
    options.keep_outputs = False
    with base(proto, path) as accessor:
        outputs = _add_loss(accessor.model, loss_block, loss_inputs)
        outputs = list(dict.fromkeys([*outputs, *options.additional_output_names]))
        _graph_utils.register_graph_outputs(accessor.model, outputs)
        options.additional_output_names = outputs[1:]
        made = _maker.make(accessor, options)
        parameters = _maker.parameters_of(made) if isinstance(optimizer, Block) else None
        versions = (options.opset or _graph_utils.opset_of(accessor.model), accessor.model.ir_version)
    if isinstance(optimizer, Block):
        made.add_model("optimizer_model.onnx", _optimizer_model(optimizer, parameters, *versions))
    return made


def _read(model: Any) -> tuple[onnx.ModelProto, str | None]:
    if isinstance(model, onnx.ModelProto):
        return model, None
    if isinstance(model, bytes):
        return onnx.ModelProto.FromString(model), None
    if not isinstance(model, (str, os.PathLike)):
        raise TypeMismatchError(f"a model is an onnx.ModelProto or a path, got {type(model).__name__}")
    path = os.fspath(model)
    proto = onnx.load(path, load_external_data=False)
    outside = [tensor for tensor in proto.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    if outside and sum(most_bytes(tensor) for tensor in outside) < _MOST_TO_LOAD:
        proto = onnx.load(path)
    return proto, path


_LOSS_BLOCKS = {
    "MSELoss": loss.MSELoss,
    "CrossEntropyLoss": loss.CrossEntropyLoss,
    "BCEWithLogitsLoss": loss.BCEWithLogitsLoss,
    "L1Loss": loss.L1Loss,
}


def _add_loss(model: onnx.ModelProto, loss_block: Block | Enum | None, inputs: Sequence[str] | None) -> list[str]:
    """The names of the outputs, the loss first."""
    names = list(inputs or [output.name for output in model.graph.output])
    if isinstance(loss_block, Enum):
        if not inputs and len(names) != 1:
            raise InvalidArgumentError(f"the model has {len(names)} outputs ({', '.join(names)}): say with "
                                       "loss_input_names which one the loss reads")
        result = _LOSS_BLOCKS[loss_block.name]()(*names)
    else:
        result = (loss_block or blocks.PassThrough())(*names)
    return [result] if isinstance(result, str) else list(result)


def _optimizer_model(optimizer: Block, parameters: Any, opset: int, ir_version: int) -> bytes:
    with empty_base(opset_version=opset) as accessor:
        result = optimizer(parameters)
        _finish(accessor, result, ir_version)
        return bytes(accessor.model.SerializeToString())


def _finish(accessor: ModelAccessor, result: Any, ir_version: int) -> None:
    """Of a block that is no ForwardBlock the results become the outputs here."""
    accessor.model.ir_version = ir_version
    if not accessor.model.graph.output:
        _graph_utils.register_graph_outputs(accessor.model, result)
