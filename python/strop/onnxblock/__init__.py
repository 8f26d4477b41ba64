# SPDX-License-Identifier: Apache-2.0
"""Composes losses, models and optimizers from blocks that add nodes to an ONNX model.

The names, calls and generated names are those of onnxruntime.training.onnxblock:

    class TwoHeads(onnxblock.TrainingBlock):
        def __init__(self):
            super().__init__()
            self.boxes = onnxblock.loss.MSELoss()
            self.kinds = onnxblock.loss.CrossEntropyLoss()
            self.add = onnxblock.blocks.Add()

        def build(self, boxes, kinds):
            return self.add(self.boxes(boxes, "box_target"), self.kinds(kinds, "kind_labels"))

    block = TwoHeads()
    block.requires_grad("boxes.weight")
    with onnxblock.base(model):
        block("boxes", "kinds")
    training_model, eval_model = block.to_model_proto()

Blocks edit a copy of the model in memory; no temporary files are written. Gradients, switches for evaluation and
checkpoints come from Strop's core. Needs the package onnx (strop[onnx]).
"""

from . import blocks, loss, optim
from .blocks import Block
from .checkpoint_utils import load_checkpoint_to_model, save_checkpoint
from .model_accessor import base, custom_op_library, empty_base
from .onnxblock import ForwardBlock, TrainingBlock

__all__ = [
    "Block",
    "ForwardBlock",
    "TrainingBlock",
    "base",
    "blocks",
    "custom_op_library",
    "empty_base",
    "load_checkpoint_to_model",
    "loss",
    "optim",
    "save_checkpoint",
]
