# SPDX-License-Identifier: Apache-2.0
"""From a model for inference to one that trains: the files of ONNX Runtime's on-device training.

>>> import os
>>> from strop import artifacts
>>> artifacts.generate_artifacts("model.onnx", requires_grad=["*"], loss=artifacts.LossType.CrossEntropyLoss,
...                              optimizer=artifacts.OptimType.AdamW, artifact_directory="artifacts")
>>> sorted(os.listdir("artifacts"))
['checkpoint', 'eval_model.onnx', 'optimizer_model.onnx', 'training_model.onnx']

strop.Module and ONNX Runtime 1.19 train with these. make_artifacts gives the same in memory. Paths and the losses and
optimizers of LossType and OptimType need nothing but Strop; models and losses that are objects of the packages onnx
and strop.onnxblock need strop[onnx].
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import (
    Error,
    InvalidArgumentError,
    MissingFileError,
    TypeMismatchError,
    UnsupportedError,
)
from ._generated_names import names_used, set_names_used

if TYPE_CHECKING:
    import onnx

    from .onnxblock import Block

# Bytes; ONNX Runtime takes larger models by path only. Strop takes them either way.
USE_PATH_THRESHOLD = 2147483648

_logger = logging.getLogger(__name__)


class LossType(Enum):
    """Losses by name, each the mean over all elements of the batch.

    The loss reads an output of the model, and a target that is a new input of the training model. For CrossEntropyLoss
    that is "labels", int64 [n, d1, ...], classes from 0, for scores of shape [n, classes, d1, ...]; for the others
    "target", of the output's type and shape: MSELoss is the squared difference, L1Loss the absolute one, and
    BCEWithLogitsLoss the binary cross entropy of logits and targets from 0 to 1.

    >>> made = strop.artifacts.make_artifacts("model.onnx", ["*"], loss=strop.artifacts.LossType.CrossEntropyLoss)
    >>> made.user_inputs
    ['input', 'labels']
    >>> made = strop.artifacts.make_artifacts("model.onnx", ["*"], loss=strop.artifacts.LossType.L1Loss)
    >>> made.user_inputs
    ['input', 'target']
    """

    MSELoss = 1
    CrossEntropyLoss = 2
    BCEWithLogitsLoss = 3
    L1Loss = 4


class OptimType(Enum):
    """Optimizers by name, with ONNX Runtime's defaults; onnxblock.optim has those with choices.

    AdamW has betas 0.9 and 0.999, epsilon 1e-6, a bias correction and no weight decay. SGD has no momentum. The
    learning rate is set when training: Optimizer.set_learning_rate.

    >>> loss = strop.artifacts.LossType.CrossEntropyLoss
    >>> made = strop.artifacts.make_artifacts("model.onnx", ["fc2.*"], None, loss, strop.artifacts.OptimType.SGD)
    >>> state = strop.CheckpointState.load_from_bytes(made.checkpoint)
    >>> module = strop.Module(made.training_model, state)
    >>> optimizer = strop.Optimizer(made.optimizer_model, module)
    """

    AdamW = 1
    SGD = 2


@dataclass(frozen=True)
class Artifacts:
    """What make_artifacts made: files as bytes, and what stands in them.

    training_model, eval_model, checkpoint: the files; with an optimizer optimizer_model, and if it was asked for
        nominal_checkpoint, else None.
    trainable, frozen: names of parameters.
    loss_name: the name of the loss, which is the first of the outputs.
    user_inputs, user_outputs: names of the training model's inputs and outputs; parameters, gradients and the like
        are left out.
    notes: what a reader should know, each in a sentence.

    >>> made = strop.artifacts.make_artifacts("model.onnx", ["fc2.*"], loss=strop.artifacts.LossType.MSELoss)
    >>> made.trainable, made.optimizer_model
    (['fc2.weight', 'fc2.bias'], None)
    >>> with open("training_model_of_fc2.onnx", "wb") as file:
    ...     _ = file.write(made.training_model)
    """

    training_model: bytes
    eval_model: bytes
    checkpoint: bytes
    optimizer_model: bytes | None
    nominal_checkpoint: bytes | None
    trainable: list[str]
    frozen: list[str]
    loss_name: str
    user_inputs: list[str]
    user_outputs: list[str]
    notes: list[str]


def generate_artifacts(
    model: onnx.ModelProto | str | os.PathLike[str],
    requires_grad: list[str] | None = None,
    frozen_params: list[str] | None = None,
    loss: LossType | Block | None = None,
    optimizer: OptimType | Block | None = None,
    artifact_directory: str | bytes | os.PathLike[str] | None = None,
    prefix: str = "",
    ort_format: bool = False,
    custom_op_library: str | bytes | os.PathLike[str] | None = None,
    additional_output_names: list[str] | None = None,
    nominal_checkpoint: bool = False,
    loss_input_names: list[str] | None = None,
    *,
    opset: int | None = None,
) -> None:
    """Makes the artifacts of a model and writes them to a folder, all of them or none.

    Args:
        model: an onnx.ModelProto, which is left as it is, or the path of a model, or bytes.
        requires_grad: parameters to train, by name; * and ? stand for any text and any character. Names of float
            inputs give these a gradient too. Without any, nothing is trained.
        frozen_params: parameters to keep in the checkpoint without training them. What is in neither list stays a
            constant of the models. Names that no parameter has are passed over.
        loss: a LossType, a block of strop.onnxblock.loss or one of your own, which gets the names of the model's
            outputs, or None where the model's first output is the loss.
        optimizer: an OptimType, a block of strop.onnxblock.optim or one of your own, or None for no optimizer model.
        artifact_directory: the folder, made if it is not there; by default the working directory.
        prefix: put in front of each file name.
        ort_format: must be False: Strop has no such format.
        custom_op_library: a library with ONNX Runtime's custom operators. It must exist, but Strop cannot load it.
        additional_output_names: outputs of the training and the eval model after the loss; any tensors of the model.
        nominal_checkpoint: whether to write nominal_checkpoint too, which has names and no values.
        loss_input_names: what the loss gets, instead of all outputs of the model.
        opset: a newer opset for the artifacts than the model's.

    Raises:
        Error: KeyError for a name to train, of an output or of what the loss gets that is not in the model,
            FileNotFoundError where there is no model or library, TypeError for arguments of another kind,
            NotImplementedError for ort_format or naming every node without a gradient, OSError where a file cannot be
            written, and ValueError for all else: a malformed model, parameters that are not of a float type or that
            the loss does not depend on, an optimizer with nothing to train, or files that would take the place of the
            model. Nothing is written then.

    >>> from strop.artifacts import LossType, OptimType, generate_artifacts
    >>> generate_artifacts("model.onnx", requires_grad=["fc2.*"], frozen_params=["fc1.*"],
    ...                    loss=LossType.CrossEntropyLoss, optimizer=OptimType.AdamW, artifact_directory="head")
    >>> state = strop.CheckpointState.load_checkpoint("head/checkpoint")
    >>> [p.name for p in state.parameters.values() if p.requires_grad]
    ['fc2.bias', 'fc2.weight']
    """
    if ort_format:
        raise UnsupportedError("Strop has no ORT format, and ONNX Runtime reads the .onnx files: leave out ort_format")
    folder = pathlib.Path.cwd() if artifact_directory is None else pathlib.Path(os.fsdecode(artifact_directory))
    with _library(custom_op_library):
        made = _make(model, requires_grad, frozen_params, loss, optimizer, additional_output_names, loss_input_names,
                     prefix=prefix, nominal_checkpoint=nominal_checkpoint, opset=opset)
        if prefix:
            _logger.info("Using prefix %s for the names of the files", prefix)
        for name in ("training_model.onnx", "eval_model.onnx", "checkpoint"):
            if (folder / (prefix + name)).exists():
                _logger.info("%s already exists, overwriting", folder / (prefix + name))
        report = made.write(folder)
    for name in report["files"]:
        _logger.info("Saved %s", folder / name)
    for note in report["notes"]:
        _logger.info("%s", note)


def make_artifacts(
    model: onnx.ModelProto | bytes | str | os.PathLike[str],
    requires_grad: list[str] | None = None,
    frozen_params: list[str] | None = None,
    loss: LossType | Block | None = None,
    optimizer: OptimType | Block | None = None,
    *,
    additional_output_names: list[str] | None = None,
    nominal_checkpoint: bool = False,
    loss_input_names: list[str] | None = None,
    opset: int | None = None,
) -> Artifacts:
    """What generate_artifacts would write, in memory, as Artifacts.

    The arguments and errors are those of generate_artifacts. What passes 2 GB is a ValueError: that goes to files only.

    >>> from strop.artifacts import LossType, OptimType, make_artifacts
    >>> made = make_artifacts("model.onnx", ["*"], loss=LossType.MSELoss, optimizer=OptimType.SGD)
    >>> made.user_inputs
    ['input', 'target']
    >>> state = strop.CheckpointState.load_from_bytes(made.checkpoint)
    >>> module = strop.Module(made.training_model, state, made.eval_model)
    >>> optimizer = strop.Optimizer(made.optimizer_model, module)
    """
    made = _make(model, requires_grad, frozen_params, loss, optimizer, additional_output_names, loss_input_names,
                 nominal_checkpoint=nominal_checkpoint, opset=opset)
    files, report = made.files(), made.report
    return Artifacts(
        training_model=files["training_model.onnx"],
        eval_model=files["eval_model.onnx"],
        checkpoint=files["checkpoint"],
        optimizer_model=files.get("optimizer_model.onnx"),
        nominal_checkpoint=files.get("nominal_checkpoint"),
        trainable=report["trainable"],
        frozen=report["frozen"],
        loss_name=report["loss_name"],
        user_inputs=report["user_inputs"],
        user_outputs=report["user_outputs"],
        notes=report["notes"],
    )


def _make(model: Any, requires_grad: list[str] | None, frozen_params: list[str] | None, loss: Any, optimizer: Any,
          additional: list[str] | None, loss_inputs: list[str] | None, prefix: str = "",
          nominal_checkpoint: bool = False, opset: int | None = None) -> Any:
    """The artifacts as the core's object."""
    _check_losses(loss, optimizer)
    _check_names(requires_grad, frozen_params, additional, loss_inputs)
    if optimizer is not None and not requires_grad:
        raise InvalidArgumentError("an optimizer was asked for, but requires_grad names no trainable parameter; "
                                   'requires_grad=["*"] trains all')
    options = _core.ArtifactOptions()
    options.only_named = True
    options.requires_grad = list(requires_grad or [])
    options.frozen_params = list(frozen_params or [])
    options.additional_output_names = list(additional or [])
    options.prefix = prefix
    options.nominal_checkpoint = nominal_checkpoint
    options.opset = opset
    options.optimizer = _OPTIMIZERS.get(optimizer, _core.OptimizerKind.NONE)
    _logger.info("Loss: %s", _text_of(loss, "the model's first output"))
    _logger.info("Optimizer: %s", _text_of(optimizer, "none, skipping the optimizer model"))
    # Without a loss the model's outputs stay outputs, before the additional ones.
    options.keep_outputs = loss is None
    reordered = loss is None and (additional or loss_inputs)
    if not (_is_block(loss) or _is_block(optimizer) or reordered):
        made = _make_named(model, options, loss, loss_inputs)
    else:
        from ._block_artifacts import make_with_blocks

        made = make_with_blocks(model, options, loss, optimizer, loss_inputs)
    return made


_OPTIMIZERS = {
    OptimType.AdamW: _core.OptimizerKind.ADAMW,
    OptimType.SGD: _core.OptimizerKind.SGD,
}

_LOSSES = {
    LossType.MSELoss: _core.LossKind.MSE,
    LossType.CrossEntropyLoss: _core.LossKind.CROSS_ENTROPY,
    LossType.BCEWithLogitsLoss: _core.LossKind.BCE_WITH_LOGITS,
    LossType.L1Loss: _core.LossKind.L1,
}


def _make_named(model: Any, options: Any, loss: LossType | None, loss_inputs: list[str] | None) -> Any:
    """Without blocks: the core adds the loss."""
    if loss is not None:
        options.losses = [_named_loss(loss, loss_inputs or [])]
    options.names_used = names_used()
    if isinstance(model, (str, bytes, os.PathLike)):
        made = _core.Artifacts(model, options)
    elif hasattr(model, "SerializeToString"):
        from .onnxblock._maker import core_artifacts

        made = core_artifacts(model, options)
    else:
        raise _no_model(model)
    set_names_used(made.report["names_used"])
    return made


def _named_loss(loss: LossType, inputs: Sequence[str]) -> Any:
    """The loss of the first name against the second, or a new input where there is none."""
    if len(inputs) > 2:
        raise InvalidArgumentError(f"{loss.name} takes a prediction and a target, got {len(inputs)} loss_input_names")
    named = _core.Loss()
    named.kind = _LOSSES[loss]
    if inputs:
        named.input = inputs[0]
    default = "labels" if loss is LossType.CrossEntropyLoss else "target"
    named.target = inputs[1] if len(inputs) == 2 else default
    return named


# --- Arguments


def _is_block(value: Any) -> bool:
    if value is None or isinstance(value, Enum):
        return False
    from .onnxblock import Block

    return isinstance(value, Block)


def _check_losses(loss: Any, optimizer: Any) -> None:
    for value, wanted, what in ((loss, LossType, "loss"), (optimizer, OptimType, "optimizer")):
        if value is None or isinstance(value, wanted) or (not isinstance(value, (Enum, str)) and _is_block(value)):
            continue
        text = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeMismatchError(f"{what} must be None, of {wanted.__name__} or an onnxblock.Block instance, got {text}")


def _check_names(requires_grad: Any, frozen_params: Any, additional: Any, loss_inputs: Any) -> None:
    if additional and not isinstance(additional, list):
        raise TypeMismatchError(f"additional_output_names must be a list of str, got {type(additional).__name__}")
    lists = {"requires_grad": requires_grad, "frozen_params": frozen_params, "loss_input_names": loss_inputs}
    for what, names in lists.items():
        if isinstance(names, (str, bytes)):
            raise TypeMismatchError(f"{what} must be a list of str, got {type(names).__name__}")
    for what, names in {**lists, "additional_output_names": additional}.items():
        other = [name for name in names or [] if not isinstance(name, str)]
        if other:
            raise TypeMismatchError(f"{what} must be a list of str, got {other[0]!r} in it")
    both = sorted(set(requires_grad or []) & set(frozen_params or []))
    if both:
        raise InvalidArgumentError(f"parameters cannot be trained and frozen at once: {', '.join(both)}")


def _no_model(model: Any) -> Error:
    return TypeMismatchError(f"a model is an onnx.ModelProto or a path, got {type(model).__name__}")


@contextlib.contextmanager
def _library(path: Any) -> Iterator[None]:
    if path is None:
        yield
        return
    if not os.path.exists(os.fsdecode(path)):
        raise MissingFileError(f"there is no custom op library {os.fsdecode(path)}")
    _logger.info("Custom op library provided: %s. Strop cannot load it", os.fsdecode(path))
    try:
        yield
    except Error as error:
        raise type(error)(f"{error} (Strop cannot load the custom operators of {os.fsdecode(path)})") from None


# --- Logging


def _text_of(value: Any, otherwise: str) -> str:
    if value is None:
        return otherwise
    return value.name if isinstance(value, Enum) else type(value).__name__
