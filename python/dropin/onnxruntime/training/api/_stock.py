# SPDX-License-Identifier: Apache-2.0
"""Where objects of stock onnxruntime meet Strop, and what stands for them without it."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import strop


class FlatBuffer:
    """A float32 buffer with the methods of ONNX Runtime's native OrtValue, for use without stock onnxruntime."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def numpy(self) -> np.ndarray:
        """The elements themselves, in place."""
        return self._array

    def update_inplace(self, array: np.ndarray) -> None:
        """Copies an array of the same shape into the buffer."""
        if array.shape != self._array.shape or array.dtype != self._array.dtype:
            raise RuntimeError(
                f"the buffer is {self._array.dtype} {self._array.shape}, got {array.dtype} {array.shape}"
            )
        self._array[...] = array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)

    def data_type(self) -> str:
        return "tensor(float)"

    def element_type(self) -> int:
        return 1  # ONNX's FLOAT

    def device_name(self) -> str:
        return "Cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True


def _is_value(value: Any) -> bool:
    return hasattr(value, "_ortvalue")


def are_values(values: tuple[Any, ...]) -> bool:
    """Whether all are onnxruntime.OrtValue."""
    return all(_is_value(value) for value in values)


def array_of(value: Any) -> Any:
    """The array in an OrtValue, native or not, and in a FlatBuffer; anything else as it is."""
    if _is_value(value) or hasattr(value, "device_name"):
        return value.numpy()
    return value


def _ort_value() -> Any:
    """The class onnxruntime.OrtValue; None without stock onnxruntime, when the name is a namespace alone."""
    return getattr(importlib.import_module("onnxruntime"), "OrtValue", None)


def value_of(array: np.ndarray) -> Any:
    """An onnxruntime.OrtValue over the array."""
    return _ort_value().ortvalue_from_numpy(array)


def buffer_of(array: np.ndarray) -> Any:
    """The native OrtValue that ONNX Runtime gives for a flat buffer; a FlatBuffer without stock onnxruntime."""
    kind = _ort_value()
    if kind is None:
        return FlatBuffer(array)
    value = kind.ortvalue_from_shape_and_type(list(array.shape), np.float32)
    value.update_inplace(array)  # an OrtValue over the array would not keep it alive
    return value._ortvalue


def session_options(options: Any) -> strop.SessionOptions | None:
    """Strop's options with what it knows of stock's: threads, profiling and the entry about prepacking."""
    if options is None or isinstance(options, strop.SessionOptions):
        return options
    result = strop.SessionOptions()
    result.intra_op_num_threads = options.intra_op_num_threads
    result.enable_profiling = options.enable_profiling
    entry = "session.disable_prepacking"
    try:
        value = options.get_session_config_entry(entry)
    except Exception:  # stock's way to say that there is none
        return result
    result.add_session_config_entry(entry, value)
    return result
