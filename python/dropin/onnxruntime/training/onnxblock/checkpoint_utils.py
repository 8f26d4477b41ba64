# SPDX-License-Identifier: Apache-2.0
"""Parameters to a checkpoint, and back into a model."""

from strop.onnxblock.checkpoint_utils import load_checkpoint_to_model, save_checkpoint

__all__ = ["load_checkpoint_to_model", "save_checkpoint"]
