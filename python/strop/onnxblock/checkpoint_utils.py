# SPDX-License-Identifier: Apache-2.0
"""Between parameters as TensorProtos and checkpoint files."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .. import _core
from .._errors import InvalidArgumentError
from ._onnx import onnx

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data",
                "external_data", "data_location", "segment")


def save_checkpoint(parameters: tuple[Sequence[onnx.TensorProto], Sequence[onnx.TensorProto]],
                    path_to_checkpoint: str | os.PathLike[str], nominal_checkpoint: bool = False) -> None:
    """Writes (trained, frozen) parameters, as TrainingBlock.parameters gives them, as a checkpoint file.

    Args:
        parameters: two lists of onnx.TensorProto.
        path_to_checkpoint: the file, which is overwritten.
        nominal_checkpoint: names alone, for devices that get the values later.

    Raises:
        Error: ValueError for None, or a name that is there twice; OSError where the file cannot be written.

    >>> onnxblock.save_checkpoint((list(model.graph.initializer), []), "made_checkpoint")
    >>> len(strop.CheckpointState.load_checkpoint("made_checkpoint").parameters)
    4
    """
    if parameters is None:
        raise InvalidArgumentError("save_checkpoint wants (trained, frozen) parameters, got None")
    trainable, frozen = parameters
    _core.save_checkpoint([tensor.SerializeToString() for tensor in trainable],
                          [tensor.SerializeToString() for tensor in frozen], path_to_checkpoint, nominal_checkpoint)


def load_checkpoint_to_model(path_to_checkpoint: str | os.PathLike[str], model: onnx.ModelProto) -> None:
    """Puts the parameters of a checkpoint into the model's initializers of the same names, in place.

    Other initializers stay, and parameters that the model does not have are left out.

    Raises:
        Error: FileNotFoundError where there is no checkpoint, ValueError where it is damaged; a plain Error where it
            is nominal.

    >>> trained = onnx.load("model.onnx")
    >>> onnxblock.load_checkpoint_to_model("checkpoint", trained)
    """
    state = _core.CheckpointState.load_checkpoint(path_to_checkpoint)
    values = {name: rest for name, *rest in _core.checkpoint_tensors(state)}
    for tensor in model.graph.initializer:
        if tensor.name not in values:
            continue
        data_type, dims, data = values[tensor.name]
        for field in _DATA_FIELDS:
            tensor.ClearField(field)
        del tensor.dims[:]
        tensor.dims.extend(dims)
        tensor.data_type = data_type
        tensor.raw_data = data
