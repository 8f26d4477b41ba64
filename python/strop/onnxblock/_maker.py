# SPDX-License-Identifier: Apache-2.0
"""From a model with its loss to artifacts: what blocks built goes to Strop's core."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._errors import Error
from .._generated_names import names_used, set_names_used
from ._onnx import onnx
from ._protos import in_parts
from .model_accessor import ModelAccessor, explain_custom_ops


def options_for(model: onnx.ModelProto, trainable: list[str], frozen: list[str]) -> Any:
    """Options for a model whose outputs are the loss and what else shall be an output; without an optimizer."""
    options = _core.ArtifactOptions()
    options.requires_grad = trainable
    options.frozen_params = frozen
    options.only_named = True
    options.additional_output_names = [output.name for output in model.graph.output][1:]
    options.optimizer = _core.OptimizerKind.NONE
    return options


def make(accessor: ModelAccessor, options: Any) -> Any:
    """The artifacts of the accessor's model, as the core's object. Generated names count on."""
    options.names_used = names_used()
    try:
        made = core_artifacts(accessor.model, options, accessor.path if accessor.has_path else None)
    except Error as error:
        raise explain_custom_ops(error) from None
    set_names_used(made.report["names_used"])
    return made


def core_artifacts(model: onnx.ModelProto, options: Any, path: str | None = None) -> Any:
    """The artifacts of a model, which may come from a path."""
    data, buffers = in_parts(model)
    if path is None and not buffers:
        return _core.Artifacts(data, options)
    return _core.Artifacts(data, path or "<model in memory>/model", buffers, options)


def parameters_of(made: Any) -> tuple[list[onnx.TensorProto], list[onnx.TensorProto]]:
    """(trained, frozen) parameters of artifacts."""
    trainable, frozen = made.parameters()
    return [_tensor(*parts) for parts in trainable], [_tensor(*parts) for parts in frozen]


def _tensor(name: str, data_type: int, dims: list[int], data: bytes) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=data_type, dims=dims, raw_data=data)
