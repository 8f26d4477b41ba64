# SPDX-License-Identifier: Apache-2.0
"""strop.grad: outputs and gradients of any model, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._core import Function
from ._errors import InvalidArgumentError, UnknownNameError


class Gradients(NamedTuple):
    """What grad returns: arrays by name.

    outputs: the model's outputs. gradients: each of the type and shape of the value that it belongs to.

    >>> outputs, gradients = strop.grad("model.onnx", x, "input")
    >>> list(outputs), list(gradients)
    (['output'], ['input'])
    """

    outputs: dict[str, np.ndarray[Any, Any]]
    gradients: dict[str, np.ndarray[Any, Any]]


def grad(
    model: Any,
    inputs: Mapping[str, Any] | Sequence[Any] | np.ndarray[Any, Any],
    wrt: str | Sequence[str],
    *,
    of: str = "",
    seed: Any = None,
) -> Gradients:
    """The outputs of an ONNX model, and gradients of one of them.

    To call a model many times, keep a Function.

    Args:
        model: a path, bytes, or an onnx.ModelProto.
        inputs: arrays by name in a dict, or in the model's order in a list or tuple, or the one array; of exactly the
            model's element types.
        wrt: the name, or names, of the inputs, parameters or other values to differentiate by; of a float type.
        of: the output that is differentiated; the first by default.
        seed: an array of that output's type and shape: the sum of the products of the two is differentiated. By
            default it is ones, which means the sum of the output's elements.

    Returns:
        Gradients(outputs, gradients): new NumPy arrays by name; a gradient has the type and shape of its value.

    Raises:
        Error: FileNotFoundError where there is no file, KeyError for an unknown name, TypeError for another element
            type, ValueError for another shape or count, a missing input, a value without a float type or one that the
            output does not depend on, NotImplementedError naming the nodes without a gradient.

    >>> result = strop.grad("model.onnx", x, wrt="input")
    >>> result.outputs["output"].shape, result.gradients["input"].shape
    ((8, 3), (8, 6))
    >>> first_class = np.zeros((8, 3), np.float32)
    >>> first_class[:, 0] = 1
    >>> result = strop.grad("model.onnx", {"input": x}, ["fc2.bias"], seed=first_class)
    >>> result.gradients["fc2.bias"].tolist()
    [8.0, 0.0, 0.0]
    """
    names = [wrt] if isinstance(wrt, str) else list(wrt)
    function = Function(model, wrt=names, of=of, seeded=seed is not None)
    wanted = function.input_names()
    if seed is not None:
        wanted = wanted[:-1]
    arrays = _in_order(inputs, wanted)
    if seed is not None:
        arrays.append(seed)
    return Gradients(*function(*arrays))


def _in_order(inputs: Mapping[str, Any] | Sequence[Any] | np.ndarray[Any, Any], names: list[str]) -> list[Any]:
    """The arrays in the order of `names`."""
    if isinstance(inputs, Mapping):
        unknown = sorted(set(inputs) - set(names))
        if unknown:
            raise UnknownNameError(f"the model has no input {unknown[0]!r}; it has {', '.join(names)}")
        missing = [name for name in names if name not in inputs]
        if missing:
            raise InvalidArgumentError(f"the input {missing[0]!r} is missing")
        return [inputs[name] for name in names]
    if isinstance(inputs, (list, tuple)):
        return list(inputs)
    return [inputs]
