# SPDX-License-Identifier: Apache-2.0
"""The model that blocks edit, one at a time in a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .._errors import Error, FailedStateError, InvalidArgumentError, MissingFileError, TypeMismatchError
from ._onnx import onnx
from ._protos import copy_of

# What ONNX Runtime 1.19 reads.
_NEWEST_IR = 10
_NEWEST_OPSET = 21


class ModelAccessor:
    """The model under construction, and the path that it came from, if any. base and empty_base yield it.

    >>> with onnxblock.empty_base() as accessor:
    ...     accessor.has_path, len(accessor.model.graph.node)
    (False, 0)
    """

    def __init__(self, model: onnx.ModelProto | None, model_path: str | os.PathLike[str] | None = None) -> None:
        self._model = model
        self._path = None if model_path is None else os.fspath(model_path)

    @property
    def model(self) -> onnx.ModelProto:
        """The onnx.ModelProto, which blocks edit in place; a plain Error if there is none."""
        if self._model is None:
            raise FailedStateError("there is no model: enter onnxblock.base or onnxblock.empty_base")
        return self._model

    @property
    def path(self) -> str:
        """Where the model was read from, a str; a plain Error if it was not."""
        if self._path is None:
            raise FailedStateError("the model has no path")
        return self._path

    @property
    def has_path(self) -> bool:
        """Whether `path` is known."""
        return self._path is not None


_GLOBAL_ACCESSOR: ModelAccessor | None = None
_GLOBAL_CUSTOM_OP_LIBRARY: str | None = None


def current() -> ModelAccessor:
    """The ModelAccessor of the context around; a plain Error outside of any."""
    if _GLOBAL_ACCESSOR is None:
        raise FailedStateError("blocks need a model: call them inside onnxblock.base or onnxblock.empty_base")
    return _GLOBAL_ACCESSOR


@contextlib.contextmanager
def _editing(accessor: ModelAccessor) -> Iterator[ModelAccessor]:
    global _GLOBAL_ACCESSOR
    _GLOBAL_ACCESSOR = accessor
    try:
        yield accessor
    finally:
        _GLOBAL_ACCESSOR = None


def _require_none() -> None:
    if _GLOBAL_ACCESSOR is not None:
        raise FailedStateError("one model at a time: onnxblock.base and onnxblock.empty_base cannot be nested")


@contextlib.contextmanager
def base(model: onnx.ModelProto, model_path: str | os.PathLike[str] | None = None) -> Iterator[ModelAccessor]:
    """Blocks called inside this context edit a copy of `model`.

    model_path: where the model was read from, if it keeps tensors in files beside it.

    Yields the ModelAccessor, whose `model` is the copy. Raises Error: ValueError for None, TypeError for what is no
    onnx.ModelProto; a plain Error inside another such context.

    >>> with onnxblock.base(model) as accessor:
    ...     name = onnxblock.blocks.Sigmoid()("output")
    >>> len(accessor.model.graph.node) - len(model.graph.node)
    1
    """
    _require_none()
    if model is None:
        raise InvalidArgumentError("onnxblock.base wants an onnx.ModelProto, got None")
    if not isinstance(model, onnx.ModelProto):
        raise TypeMismatchError(f"onnxblock.base wants an onnx.ModelProto, got {type(model).__name__}")
    with _editing(ModelAccessor(copy_of(model), model_path)) as accessor:
        yield accessor


@contextlib.contextmanager
def empty_base(opset_version: int | None = None) -> Iterator[ModelAccessor]:
    """Blocks called inside this context build a model from nothing.

    opset_version: of ONNX's operators; by default the newest of the installed onnx that ONNX Runtime 1.19 reads.

    Yields the ModelAccessor. Raises a plain Error inside another such context.

    >>> with onnxblock.empty_base(opset_version=14) as accessor:
    ...     name = onnxblock.blocks.Constant(3.0)()
    >>> len(accessor.model.graph.initializer)
    1
    """
    _require_none()
    newest = min(onnx.defs.onnx_opset_version(), _NEWEST_OPSET)
    model = onnx.ModelProto(ir_version=min(onnx.IR_VERSION, _NEWEST_IR), producer_name="strop")
    model.graph.name = "graph"
    model.opset_import.add(domain="com.microsoft", version=1)
    model.opset_import.add(domain="", version=newest if opset_version is None else opset_version)
    with _editing(ModelAccessor(model)) as accessor:
        yield accessor


@contextlib.contextmanager
def custom_op_library(custom_op_library_path: str | bytes | os.PathLike[str]) -> Iterator[None]:
    """Names a library of custom operators for what is built inside this context.

    Strop cannot load libraries that were built for ONNX Runtime: models that need one are refused when their
    gradients are made. Raises Error: FileNotFoundError where there is none; a plain Error inside another such context.

    >>> with onnxblock.custom_op_library("no_such_library.so"):
    ...     pass
    Traceback (most recent call last):
    strop._errors.MissingFileError: there is no custom op library no_such_library.so
    """
    global _GLOBAL_CUSTOM_OP_LIBRARY
    if _GLOBAL_CUSTOM_OP_LIBRARY is not None:
        raise FailedStateError("one library at a time: onnxblock.custom_op_library cannot be nested")
    path = os.fsdecode(custom_op_library_path)
    if not os.path.exists(path):
        raise MissingFileError(f"there is no custom op library {path}")
    _GLOBAL_CUSTOM_OP_LIBRARY = path
    try:
        yield
    finally:
        _GLOBAL_CUSTOM_OP_LIBRARY = None


def explain_custom_ops(error: Error) -> Error:
    """The error, of the same class, with a word on the library of custom operators if one was named."""
    if _GLOBAL_CUSTOM_OP_LIBRARY is None:
        return error
    return type(error)(f"{error} (custom operators of {_GLOBAL_CUSTOM_OP_LIBRARY} are unknown: Strop cannot load "
                       "libraries built for ONNX Runtime)")
