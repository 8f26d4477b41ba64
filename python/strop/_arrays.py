# SPDX-License-Identifier: Apache-2.0
"""What the core leaves to NumPy: arrays that are not contiguous, not native, or no arrays yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import TypeMismatchError


def contiguous(value: Any, name: str) -> Any:
    """A contiguous array in this machine's byte order, of the same elements; of a PyTorch tensor such a tensor."""
    if hasattr(value, "detach"):  # one that needs a gradient, lies elsewhere or in another order
        try:
            tensor = value.detach().cpu().resolve_neg().contiguous()
        except RuntimeError as error:
            raise TypeMismatchError(f"{name}: {error}") from None
        # Before PyTorch 2.1, DLPack has no bools.
        return tensor.numpy() if str(tensor.dtype) == "torch.bool" else tensor
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeMismatchError(f"{name}: {error}") from None
    if _is_bfloat16(array.dtype):
        return np.ascontiguousarray(array).view(np.uint16).reshape(array.shape)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        kind = type(value).__name__
        raise TypeMismatchError(f"{name}: an array of numbers is wanted, got {kind} of {array.dtype}")
    native = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, native).reshape(array.shape)


def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16"


def from_bfloat16_bits(bits: np.ndarray[Any, Any], _: str) -> np.ndarray[Any, Any]:
    """Bits as ml_dtypes.bfloat16; as uint16 where ml_dtypes is not installed."""
    try:
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return bits
    return bits.view(ml_dtypes.bfloat16)
