# SPDX-License-Identifier: Apache-2.0
"""Optimizers as blocks: each is called, in an empty_base, with the parameters of a TrainingBlock.

The model is one node over lists of tensors. Its inputs are learning_rate (float32 [1]), step (int64 [1]), the lists
params and gradients, and the lists of moments; its output tells that the update was made (bool [1]).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..._errors import InvalidArgumentError
from .. import _graph_utils, blocks
from .._onnx import onnx
from ..onnxblock import ForwardBlock

_DOMAIN = "com.microsoft"


class ClipGradNorm(blocks.Block):
    """Scales all gradients down, in place, to the norm max_norm of all of them together where it is larger.

    >>> adamw = onnxblock.optim.AdamW(clip_grad=onnxblock.optim.ClipGradNorm(1.0))
    >>> with onnxblock.empty_base():
    ...     _ = adamw((list(model.graph.initializer), []))
    >>> [node.op_type for node in adamw.to_model_proto().graph.node]
    ['InplaceClipGradNorm', 'AdamWOptimizer']
    """

    def __init__(self, max_norm: float) -> None:
        super().__init__()
        self._max_norm = float(max_norm)

    def build(self, gradients_name: str) -> str:
        """The name of a list of gradients; returns that of the clipped list."""
        info = onnx.ValueInfoProto()
        info.CopyFrom(_graph_utils.type_of(self.base, gradients_name))
        info.name = blocks.add_node(self.base, "InplaceClipGradNorm", [gradients_name], "clip_grad_norm_output",
                                    domain=_DOMAIN, max_norm=self._max_norm)
        self.base.graph.value_info.append(info)
        return info.name


class _OptimizerBase(blocks.Block):
    """The one node of an optimizer."""

    def _add(self, op: str, inputs: Sequence[str], token: str, **attributes: Any) -> str:
        flag = blocks.add_node(self.base, op, inputs, token, domain=_DOMAIN, **attributes)
        self.base.graph.value_info.append(onnx.helper.make_tensor_value_info(flag, onnx.TensorProto.BOOL, [1]))
        return flag


class AdamWOptimizer(_OptimizerBase):
    """The node of AdamW, for own blocks; AdamW adds its inputs too, and tells what the arguments are."""

    def __init__(self, bias_correction: bool = True, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
                 weight_decay: float = 0.0) -> None:
        super().__init__()
        self._attributes = {
            "adam_mode": 1,
            "alpha": float(betas[0]),
            "beta": float(betas[1]),
            "correct_bias": int(bias_correction),
            "epsilon": float(eps),
            "weight_decay": float(weight_decay),
        }

    def build(self, learning_rate_name: str, step_name: str, parameter_sequence_name: str,
              gradient_sequence_name: str, first_order_moment_sequence_name: str,
              second_order_moment_sequence_name: str) -> str:
        """Names of the inputs; returns that of the flag."""
        inputs = [learning_rate_name, step_name, parameter_sequence_name, gradient_sequence_name,
                  first_order_moment_sequence_name, second_order_moment_sequence_name]
        return self._add("AdamWOptimizer", inputs, "adamw.updated_flag", **self._attributes)


class SGDOptimizer(_OptimizerBase):
    """The node of SGD, for own blocks; SGD adds its inputs too."""

    def build(self, learning_rate_name: str, parameter_sequence_name: str, gradient_sequence_name: str) -> str:
        """Names of the inputs; returns that of the flag."""
        inputs = [learning_rate_name, parameter_sequence_name, gradient_sequence_name]
        return self._add("SGDOptimizerV2", inputs, "update_completed")


class _Optimizer(ForwardBlock):
    """The inputs of an optimizer's model, and the clip before it."""

    _moments: Sequence[str] = ()

    def __init__(self, clip_grad: Callable[[str], str] | None = None) -> None:
        super().__init__()
        self._clip_grad = clip_grad

    def build(self, parameters: tuple[Sequence[onnx.TensorProto], Sequence[onnx.TensorProto]]) -> str:
        """(trained, frozen) parameters, as TrainingBlock.parameters gives them; returns the name of the flag.

        ValueError where nothing is trained, or the first parameter is neither float32 nor float64.
        """
        trainable, _ = parameters
        if not trainable:
            raise InvalidArgumentError(
                "an optimizer was asked for, but there is no trainable parameter that it could train")
        dtype = trainable[0].data_type
        if dtype not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
            raise InvalidArgumentError(f'optimizers update float32 and float64, but "{trainable[0].name}" is of '
                                       f"{onnx.TensorProto.DataType.Name(dtype).lower()}")
        inputs = self._add_inputs(dtype)
        if self._clip_grad is not None:
            inputs["gradients"] = self._clip_grad("gradients")
        return self._optimize(inputs)

    @abstractmethod
    def _optimize(self, inputs: dict[str, str]) -> str:
        """Adds the node; `inputs` are names by what they are. Returns the name of the flag."""

    def _add_inputs(self, dtype: int) -> dict[str, str]:
        add = self.base.graph.input.append
        add(onnx.helper.make_tensor_value_info("learning_rate", onnx.TensorProto.FLOAT, [1]))
        add(onnx.helper.make_tensor_value_info("step", onnx.TensorProto.INT64, [1]))
        lists = ["params", "gradients", *self._moments]
        for name in lists:
            add(onnx.helper.make_tensor_sequence_value_info(name, dtype, None))
        return {name: name for name in ["learning_rate", "step", *lists]}


class AdamW(_Optimizer):
    """AdamW, with the decay after the update as in Hugging Face's.

    The learning rate is an input of the model; all else is fixed here.

    Args:
        bias_correction: whether the rate is scaled by sqrt(1 - betas[1]^step) / (1 - betas[0]^step).
        betas: the decay of the mean of gradients, and of that of their squares, in each step.
        eps: added to the root of the mean square.
        weight_decay: the share of a parameter taken off each step, times the learning rate.
        clip_grad: a block from the name of a list of gradients to that of another, such as ClipGradNorm; None for no
            clip.

    >>> adamw = onnxblock.optim.AdamW(weight_decay=0.01)
    >>> with onnxblock.empty_base():
    ...     _ = adamw((list(model.graph.initializer), []))
    >>> [value.name for value in adamw.to_model_proto().graph.input]
    ['learning_rate', 'step', 'params', 'gradients', 'first_order_moments', 'second_order_moments']
    """

    _moments = ("first_order_moments", "second_order_moments")

    def __init__(self, bias_correction: bool = True, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
                 weight_decay: float = 0.0, clip_grad: Callable[[str], str] | None = None) -> None:
        super().__init__(clip_grad)
        self._node = AdamWOptimizer(bias_correction, betas, eps, weight_decay)

    def _optimize(self, inputs: dict[str, str]) -> str:
        return str(self._node(*inputs.values()))


class SGD(_Optimizer):
    """Stochastic gradient descent: the learning rate times the gradient is taken off each parameter.

    Its model has first moments too, which it does not read: devices feed them. clip_grad: see AdamW.

    >>> sgd = onnxblock.optim.SGD()
    >>> with onnxblock.empty_base(opset_version=14):
    ...     _ = sgd((list(model.graph.initializer), []))
    >>> [node.op_type for node in sgd.to_model_proto().graph.node]
    ['SGDOptimizerV2']
    """

    _moments = ("first_order_moments",)

    def __init__(self, clip_grad: Callable[[str], str] | None = None) -> None:
        super().__init__(clip_grad)
        self._node = SGDOptimizer()

    def _optimize(self, inputs: dict[str, str]) -> str:
        return str(self._node(inputs["learning_rate"], inputs["params"], inputs["gradients"]))
