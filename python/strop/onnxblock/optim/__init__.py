# SPDX-License-Identifier: Apache-2.0
"""Optimizers as blocks."""

from .optim import SGD, AdamW, ClipGradNorm

__all__ = ["SGD", "AdamW", "ClipGradNorm"]
