# SPDX-License-Identifier: Apache-2.0
"""generate_artifacts and its enums, as onnxruntime.training.artifacts has them."""

from strop.artifacts import (
    LossType,
    OptimType,
    USE_PATH_THRESHOLD,
    generate_artifacts,
)

__all__ = [
    "LossType",
    "OptimType",
    "USE_PATH_THRESHOLD",
    "generate_artifacts",
]
