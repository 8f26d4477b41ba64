# SPDX-License-Identifier: Apache-2.0
"""Blocks that become models."""

from strop.onnxblock.onnxblock import ForwardBlock, TrainingBlock

__all__ = ["ForwardBlock", "TrainingBlock"]
