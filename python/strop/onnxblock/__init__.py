# SPDX-License-Identifier: Apache-2.0
"""Composes losses, models and optimizers from blocks that add nodes to an ONNX model.

The names, calls and generated names are those of onnxruntime.training.onnxblock:

>>> import onnx
>>> from strop import onnxblock
>>> model = onnx.parser.parse_model('''
...     <ir_version: 8, opset_import: ["" : 14]>
...     net (float[batch, 2] x) => (float[batch, 1] box, float[batch, 2] kind)
...     <float[2, 1] b = {1, 2}, float[2, 2] k = {1, 2, 3, 4}> { box = MatMul (x, b) kind = MatMul (x, k) }''')
>>> class TwoHeads(onnxblock.TrainingBlock):
...     def __init__(self):
...         super().__init__()
...         self.boxes = onnxblock.loss.MSELoss()
...         self.kinds = onnxblock.loss.CrossEntropyLoss()
...         self.add = onnxblock.blocks.Add()
...
...     def build(self, boxes, kinds):
...         return self.add(self.boxes(boxes, "right_box"), self.kinds(kinds, "right_kind"))
>>> block = TwoHeads()
>>> block.requires_grad("b")
>>> with onnxblock.base(model):
...     _ = block("box", "kind")
>>> training_model, eval_model = block.to_model_proto()
>>> [value.name for value in eval_model.graph.input]
['x', 'right_box', 'right_kind', 'b']

Blocks edit a copy of the model in memory; no temporary files are written. Gradients, switches for evaluation and
checkpoints come from Strop's core. Needs the package onnx (strop[onnx]).

The examples of the blocks have a model that makes of float32 [batch, 6], "input", scores of three classes, float32
[batch, 3], "output", and data x of shape [8, 6].
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
