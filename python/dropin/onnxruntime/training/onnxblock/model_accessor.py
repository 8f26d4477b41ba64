# SPDX-License-Identifier: Apache-2.0
"""The model that blocks edit."""

from strop.onnxblock.model_accessor import (
    ModelAccessor,
    base,
    custom_op_library,
    empty_base,
)

__all__ = [
    "ModelAccessor",
    "base",
    "custom_op_library",
    "empty_base",
]
