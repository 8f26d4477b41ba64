# SPDX-License-Identifier: Apache-2.0
"""Blocks whose results are whole models."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any

from .._errors import FailedStateError
from . import _graph_utils, _maker, blocks
from . import model_accessor as accessor
from ._onnx import onnx
from ._protos import copy_of


class ForwardBlock(blocks.Block):
    """A block after which the model's outputs are exactly what build returns.

    >>> class Probabilities(onnxblock.ForwardBlock):
    ...     def build(self, scores):
    ...         return onnxblock.blocks.Sigmoid()(scores)
    >>> block = Probabilities()
    >>> with onnxblock.base(model):
    ...     name = block("output")
    >>> [value.name for value in block.to_model_proto().graph.output] == [name]
    True
    """

    _model: onnx.ModelProto | None = None

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the nodes to `self.base`; returns the names of the outputs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Builds the model of the context around; returns what build returns.

        Raises:
            Error: KeyError where a result is no tensor that a node makes, of known type; a plain Error outside of
                onnxblock.base and empty_base.
        """
        self.base = accessor.current().model
        logging.debug("Building forward block: %s", type(self).__name__)
        output = self.build(*args, **kwargs)
        _graph_utils.register_graph_outputs(self.base, output)
        _graph_utils.add_value_infos(self.base)
        self._model = copy_of(self.base)
        return output

    def to_model_proto(self) -> onnx.ModelProto:
        """The model as the last call left it; a plain Error before the first."""
        if self._model is None:
            raise FailedStateError("there is no model yet: call the block first")
        return self._model


class TrainingBlock(blocks.Block):
    """A block whose first result is the loss; a call makes the models that training needs.

    Nothing is trained but what requires_grad names.

    >>> class Regression(onnxblock.TrainingBlock):
    ...     def build(self, output):
    ...         return onnxblock.loss.MSELoss()(output)
    >>> block = Regression()
    >>> block.requires_grad("fc2.*")
    >>> with onnxblock.base(model):
    ...     _ = block("output")
    >>> training_model, eval_model = block.to_model_proto()
    >>> [tensor.name for tensor in block.parameters()[0]]
    ['fc2.weight', 'fc2.bias']
    """

    _models: tuple[onnx.ModelProto, onnx.ModelProto] | None = None
    _parameters: tuple[list[onnx.TensorProto], list[onnx.TensorProto]] | None = None

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the nodes to `self.base`; returns the loss, or a tuple or list of outputs that begins with it."""

    def requires_grad(self, argument_name: str, value: bool = True) -> None:
        """Names a parameter or a float input of the model as one to train, or with False as one to keep frozen.

        Frozen parameters are in the checkpoint too; what is not named stays a constant of the models. The name may
        hold * and ?, which stand for any text and any character.
        """
        chosen, other = (self._trainable, self._frozen) if value else (self._frozen, self._trainable)
        chosen[argument_name] = None
        other.pop(argument_name, None)

    def parameters(self) -> tuple[list[onnx.TensorProto], list[onnx.TensorProto]]:
        """(trained, frozen) parameters in the order of the model's initializers; a plain Error before a call."""
        if self._parameters is None:
            raise FailedStateError("there are no parameters yet: call the block first")
        return self._parameters

    def to_model_proto(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """(training model, eval model); a plain Error before a call."""
        if self._models is None:
            raise FailedStateError("there are no models yet: call the block first")
        return self._models

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Builds the training and the eval model on that of the context around; returns what build returns.

        Raises:
            Error: KeyError for an unknown name, ValueError where the model is malformed or the loss does not depend
                on what is trained, NotImplementedError naming the nodes without a gradient; a plain Error outside of
                onnxblock.base and empty_base.
        """
        around = accessor.current()
        self.base = around.model
        logging.debug("Building training block: %s", type(self).__name__)
        output = self.build(*args, **kwargs)
        _graph_utils.register_graph_outputs(self.base, output)
        options = _maker.options_for(self.base, list(self._trainable), list(self._frozen))
        made = _maker.make(around, options)
        self._parameters = _maker.parameters_of(made)
        models = made.models()
        self._models = (onnx.ModelProto.FromString(models["training_model.onnx"]),
                        onnx.ModelProto.FromString(models["eval_model.onnx"]))
        self.base.CopyFrom(self._models[0])
        return output

    # Subclasses need not call the base constructor.
    @property
    def _trainable(self) -> dict[str, None]:
        names: dict[str, None] = self.__dict__.setdefault("_trainable_names", {})
        return names

    @property
    def _frozen(self) -> dict[str, None]:
        names: dict[str, None] = self.__dict__.setdefault("_frozen_names", {})
        return names
