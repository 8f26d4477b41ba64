# SPDX-License-Identifier: Apache-2.0
"""Losses as blocks: names of predictions and targets in, the name of the loss out.

The target is an input that is added to the model, or a tensor of that name that the model has already. With the
reductions "mean" and "sum" a loss has rank 0, with "none" it has the shape of the predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._errors import InvalidArgumentError
from ..._generated_names import skip_names
from .. import _graph_utils, blocks
from .._onnx import onnx

# The opset that brought SoftmaxCrossEntropyLoss.
_CROSS_ENTROPY_SINCE = 12


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise InvalidArgumentError(f'a reduction is "mean", "sum" or "none", got {reduction!r}')


class _ReducedLoss(blocks.Block):
    """What losses that are computed for each element share."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        _check_reduction(reduction)
        self._reduction = reduction

    def _target(self, loss_input_name: str, target_name: str) -> str:
        """The target, which becomes an input like the predictions where it is not there yet."""
        if target_name == loss_input_name:
            raise InvalidArgumentError(
                f'the loss would compare "{target_name}" with itself: give the target another name')
        if _graph_utils.node_arg_exists(self.base, target_name):
            return target_name
        return str(blocks.InputLike(loss_input_name)(target_name))

    def _reduced(self, name: str) -> str:
        if self._reduction == "none":
            return name
        reduce = blocks.ReduceMean if self._reduction == "mean" else blocks.ReduceSum
        return str(reduce(keepdims=False)(name))


class MSELoss(_ReducedLoss):
    """The squared difference of predictions and target, of a float type.

    reduction: "mean", the default, or "sum" over all elements, or "none"; ValueError for another.

    >>> with onnxblock.base(model) as accessor:
    ...     loss = onnxblock.loss.MSELoss()("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=[loss])(x, np.zeros((8, 3), np.float32))
    >>> outputs[loss].shape
    ()
    """

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        """Names of predictions and target, of equal shape and type; returns the name of the loss.

        KeyError for predictions that are not in the model; ValueError for one name for both.
        """
        target = self._target(loss_input_name, target_name)
        difference = blocks.Sub()(loss_input_name, target)
        return self._reduced(blocks.Pow(2.0)(difference))


class L1Loss(_ReducedLoss):
    """The absolute difference of predictions and target, of a float type.

    reduction: see MSELoss.

    >>> with onnxblock.base(model) as accessor:
    ...     loss = onnxblock.loss.L1Loss(reduction="none")("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=[loss])(x, np.zeros((8, 3), np.float32))
    >>> outputs[loss].shape
    (8, 3)
    """

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        """Names of predictions and target, of equal shape and type; returns the name of the loss.

        KeyError for predictions that are not in the model; ValueError for one name for both.
        """
        target = self._target(loss_input_name, target_name)
        return self._reduced(blocks.Abs()(blocks.Sub()(loss_input_name, target)))


class BCEWithLogitsLoss(_ReducedLoss):
    """Binary cross entropy of logits and targets between 0 and 1, finite for logits of any size.

    weight: factors of each loss, pos_weight: factors of what positive targets count; arrays that broadcast to the
    logits, None for 1. reduction: see MSELoss.

    >>> with onnxblock.base(model) as accessor:
    ...     loss = onnxblock.loss.BCEWithLogitsLoss(pos_weight=[1, 2, 3])("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=[loss])(x, np.ones((8, 3), np.float32))
    >>> outputs[loss].shape
    ()
    """

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self._weight = weight
        self._pos_weight = pos_weight

    # ONNX Runtime's formula, t log s(x) + (1 - t) log(1 - s(x)), overflows. This one is
    # (1 - t) x + (1 + (p - 1) t) log(1 + e^-x). It takes as many generated names, so that the loss has the same.
    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        """Names of logits and target, of equal shape and type; returns the name of the loss.

        KeyError for logits that are not in the model; ValueError for one name for both.
        """
        target = self._target(loss_input_name, target_name)
        dtype = _graph_utils.element_type_of(self.base, loss_input_name)
        pos_weight = self._factors("bceloss.pos_weight", self._pos_weight, dtype)
        weight = self._factors("bceloss.weight", self._weight, dtype)
        ones = blocks.add_initializer(self.base, "bceloss.sub_ones", [1.0], dtype)
        skip_names(1)
        negative = blocks.Mul()(blocks.Sub()(ones, target), loss_input_name)
        positive = blocks._UnaryOp("Softplus")(blocks.Neg()(loss_input_name))
        if pos_weight:
            surplus = blocks.Mul()(blocks.Sub()(pos_weight, ones), target)
            positive = blocks.Mul()(blocks.Add()(ones, surplus), positive)
        skip_names(2 if pos_weight else 8)
        loss = blocks.add_node(self.base, "Add", [negative, positive], "neg_output")
        if weight:
            loss = blocks.Mul()(weight, loss)
        return self._reduced(loss)

    def _factors(self, token: str, values: Any, dtype: int) -> str | None:
        name = _graph_utils.generate_graph_name(token)  # with or without values
        return None if values is None else blocks.add_named_initializer(self.base, name, values, dtype)


class CrossEntropyLoss(blocks.Block):
    """Softmax cross entropy of scores of shape [n, classes, d1, ...] and int64 labels of shape [n, d1, ...], from 0.

    weight: a factor for each class, an array [classes], None for 1. reduction: "mean", the default, which is weighted,
    or "sum", both of rank 0, or "none", of the labels' shape; ValueError for another. ignore_index: the label that
    does not count, by default none.

    >>> with onnxblock.base(model) as accessor:
    ...     loss = onnxblock.loss.CrossEntropyLoss(weight=[1, 1, 2])("output")
    >>> outputs, _ = strop.Function(accessor.model, outputs=[loss])(x, np.zeros(8, np.int64))
    >>> outputs[loss].shape
    ()
    """

    def __init__(self, weight: Any = None, reduction: str = "mean", ignore_index: int | None = None) -> None:
        super().__init__()
        _check_reduction(reduction)
        self._weight = None if weight is None else np.asarray(weight)
        self._reduction = reduction
        self._ignore_index = ignore_index

    def build(self, scores_input_name: str, labels_name: str = "labels") -> str:
        """Names of scores and labels; returns the name of the loss.

        KeyError for scores that are not in the model; ValueError for scores below rank 2, or that are the labels.
        """
        scores = _graph_utils.type_of(self.base, scores_input_name).type.tensor_type
        self._add_labels(scores_input_name, scores, labels_name)
        weight = _graph_utils.generate_graph_name("celoss.weight")  # with or without weights
        if self._weight is not None:
            blocks.add_named_initializer(self.base, weight, self._weight, scores.elem_type)
        loss = _graph_utils.generate_graph_name("loss")
        log_prob = _graph_utils.generate_graph_name("log_prob")
        inputs = [scores_input_name, labels_name]
        if self._weight is not None:
            inputs.append(weight)
        self.base.graph.node.append(self._node(inputs, [loss, log_prob]))
        info = self.base.graph.value_info.add(name=log_prob)
        info.type.tensor_type.CopyFrom(scores)
        return loss

    def _node(self, inputs: list[str], outputs: list[str]) -> onnx.NodeProto:
        name = _graph_utils.generate_graph_name("SoftmaxCrossEntropyLoss")
        attributes: dict[str, Any] = {"reduction": self._reduction}
        ignored = self._ignore_index
        if _graph_utils.opset_of(self.base) >= _CROSS_ENTROPY_SINCE:
            if ignored is not None:
                attributes["ignore_index"] = ignored
            return onnx.helper.make_node("SoftmaxCrossEntropyLoss", inputs, outputs, name=name, **attributes)
        # ONNX Runtime's operator of the same meaning, which has no opset.
        _graph_utils.add_import(self.base, "com.microsoft", 1)
        if ignored is not None:
            inputs += [""] * (3 - len(inputs))
            inputs.append(blocks.add_named_initializer(self.base, f"{name}.ignore_index", ignored,
                                                       onnx.TensorProto.INT64))
        return onnx.helper.make_node("SoftmaxCrossEntropyLossInternal", inputs, outputs, name=name,
                                     domain="com.microsoft", **attributes)

    def _add_labels(self, scores_name: str, scores: onnx.TypeProto.Tensor, labels_name: str) -> None:
        if labels_name == scores_name:
            raise InvalidArgumentError(
                f'the loss would compare "{labels_name}" with itself: give the labels another name')
        if _graph_utils.node_arg_exists(self.base, labels_name):
            return
        rank = len(scores.shape.dim)
        if scores.HasField("shape") and rank < 2:
            raise InvalidArgumentError(
                f'cross entropy wants scores of shape [N, C, ...], but "{scores_name}" has rank {rank}')
        labels = self.base.graph.input.add(name=labels_name)
        labels.type.tensor_type.CopyFrom(scores)
        labels.type.tensor_type.elem_type = onnx.TensorProto.INT64
        if scores.HasField("shape"):
            del labels.type.tensor_type.shape.dim[1]
