# SPDX-License-Identifier: Apache-2.0
"""Module, with stock onnxruntime's SessionOptions and OrtValues where ONNX Runtime took them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import strop

from . import _stock
from .checkpoint_state import CheckpointState

__all__ = ["Module"]


def _input_of(value: Any) -> Any:
    """What strop.Module takes: the array of an OrtValue, and of a list, whose floats have no size, float32."""
    if not isinstance(value, (list, tuple, float)):
        return _stock.array_of(value)
    try:
        array = np.asarray(value)
    except ValueError:  # no array: the step tells
        return value
    return array.astype(np.float32) if array.dtype == np.float64 else array


class Module(strop.Module):
    """A model that trains.

    Args:
        train_model_uri: path of the training model.
        state: the CheckpointState, which optimizer and schedulers share.
        eval_model_uri: path of the eval model, for eval() and export.
        device: "cpu".
        session_options: onnxruntime.SessionOptions or strop.SessionOptions.
    """

    def __init__(
        self,
        train_model_uri: str | os.PathLike[str],
        state: CheckpointState,
        eval_model_uri: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        session_options: Any = None,
    ) -> None:
        kind, _, number = device.partition(":")
        int(number or 0)
        super().__init__(
            os.fspath(train_model_uri),
            state._state,
            None if eval_model_uri is None else os.fspath(eval_model_uri),
            kind,
            _stock.session_options(session_options),
        )

    def __call__(self, *user_inputs: Any) -> Any:  # type: ignore[override]  # without out=, as in ONNX Runtime
        """A train step in training mode, else a pass of the eval model.

        Arrays give an array, or a tuple of them where the model has several outputs; OrtValues give OrtValues.
        """
        arrays = user_inputs
        if not all(type(value) is np.ndarray for value in user_inputs):
            arrays = tuple(_input_of(value) for value in user_inputs)
        results = super().__call__(*arrays)
        if arrays is user_inputs or not _stock.are_values(user_inputs):
            return results
        if isinstance(results, tuple):
            return tuple(_stock.value_of(result) for result in results)
        return _stock.value_of(results)

    def get_contiguous_parameters(self, trainable_only: bool = False) -> Any:
        """All parameters one after the other, float32 [n]: an object with numpy(), a copy."""
        return _stock.buffer_of(super().get_contiguous_parameters(trainable_only))

    def copy_buffer_to_parameters(self, buffer: Any, trainable_only: bool = True) -> None:
        """The inverse of get_contiguous_parameters; takes its result, an OrtValue, or an array.

        A nominal state is completed by it: trainable_only must be False then.
        """
        super().copy_buffer_to_parameters(_stock.array_of(buffer), trainable_only)
