# SPDX-License-Identifier: Apache-2.0
"""Optimizers as blocks."""

from strop.onnxblock.optim import AdamW, ClipGradNorm, SGD

__all__ = ["AdamW", "ClipGradNorm", "SGD"]
