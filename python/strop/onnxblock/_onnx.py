# SPDX-License-Identifier: Apache-2.0
"""The package onnx, which strop.onnxblock needs and the rest of Strop does not."""

try:
    import onnx
    import onnx.helper
    import onnx.numpy_helper
except ImportError as error:
    raise ImportError("strop.onnxblock edits models with the package onnx: pip install 'strop[onnx]'") from error

__all__ = ["onnx"]
