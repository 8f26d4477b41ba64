# SPDX-License-Identifier: Apache-2.0
"""strop.grad: outputs and gradients of any model, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._core import Function
from ._errors import InvalidArgumentError, UnknownNameError


class Gradients(NamedTuple):
    """What grad returns: arrays by name."""

    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]


def grad(
    model: Any,
    inputs: Mapping[str, Any] | Sequence[Any] | np.ndarray,
    wrt: str | Sequence[str],
    *,
    of: str = "",
    seed: Any = None,
) -> Gradients:
    """The outputs of an ONNX model, and gradients of one of them.

    Args:
        model: a path, bytes, or an onnx.ModelProto.
        inputs: arrays by name, or in the model's order, or the one array; of exactly the model's types.
        wrt: the inputs, parameters or other values to differentiate by; of a float type.
        of: the output that is differentiated; the first by default.
        seed: an array of that output's type and shape: the sum of the products of the two is differentiated. By
            default it is ones, which means the sum of the output's elements.

    Returns:
        Gradients(outputs, gradients): arrays by name; a gradient has the shape of its value.

    Raises:
        strop.Error: as KeyError for an unknown name, ValueError or TypeError for inputs that do not fit,
            NotImplementedError naming every node without a gradient.

    To call a model many times, keep a strop.Function.
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


def _in_order(inputs: Mapping[str, Any] | Sequence[Any] | np.ndarray, names: list[str]) -> list[Any]:
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
