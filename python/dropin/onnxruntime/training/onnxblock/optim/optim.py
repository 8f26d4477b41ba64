# SPDX-License-Identifier: Apache-2.0
"""Optimizers as blocks, and the blocks of their bare nodes."""

from strop.onnxblock.optim.optim import (
    AdamW,
    AdamWOptimizer,
    ClipGradNorm,
    SGD,
    SGDOptimizer,
    _Optimizer,
    _OptimizerBase,
)

__all__ = [
    "AdamW",
    "AdamWOptimizer",
    "ClipGradNorm",
    "SGD",
    "SGDOptimizer",
    "_Optimizer",
    "_OptimizerBase",
]
