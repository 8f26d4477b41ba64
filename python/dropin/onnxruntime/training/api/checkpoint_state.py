# SPDX-License-Identifier: Apache-2.0
"""CheckpointState and its two collections, which iterate over pairs as ONNX Runtime's do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import strop

__all__ = ["CheckpointState", "Parameter", "Parameters", "Properties"]


class Parameter:
    """One named tensor of a state."""

    def __init__(self, parameter: strop.Parameter) -> None:
        self._parameter = parameter

    @property
    def name(self) -> str:
        return self._parameter.name

    @property
    def data(self) -> np.ndarray:
        """The value itself, in place, as ONNX Runtime 1.19 gives it: writing to the array is seen by the next step."""
        return self._parameter.view()

    @data.setter
    def data(self, value: np.ndarray) -> None:
        self._parameter.data = value

    @property
    def grad(self) -> np.ndarray | None:
        """The gradient itself, in place; None for a frozen parameter, or before a Module was made."""
        return self._parameter.grad_view()

    @property
    def requires_grad(self) -> bool:
        return self._parameter.requires_grad

    def __repr__(self) -> str:
        return repr(self._parameter)


class Parameters:
    """The parameters of a state: parameters[name], in, len; iteration gives (name, Parameter), sorted by name."""

    def __init__(self, state: strop.CheckpointState) -> None:
        self._items = state.parameters

    def __getitem__(self, name: str) -> Parameter:
        """Raises KeyError for an unknown name, RuntimeError where the state is nominal."""
        return Parameter(self._items[name])

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        """Copies an array of the parameter's type and shape into it; never adds one."""
        self._items[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[tuple[str, Parameter]]:
        for name in self._items:
            yield name, Parameter(self._items[name])

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class Properties:
    """Ints, floats and strings that a state carries; iteration gives (name, value), sorted by name."""

    def __init__(self, state: strop.CheckpointState) -> None:
        self._items = state.properties

    def __getitem__(self, name: str) -> int | float | str:
        """Raises KeyError for an unknown name."""
        return self._items[name]

    def __setitem__(self, name: str, value: int | float | str) -> None:
        """Adds or overwrites. A float is kept as float32, an int as int64; TypeError for other types."""
        if isinstance(value, np.generic):  # np.float32 and the like
            value = value.item()
        self._items[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[tuple[str, int | float | str]]:
        for name in self._items:
            yield name, self._items[name]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class CheckpointState:
    """Parameters, optimizer state and properties of a training run, made by load_checkpoint."""

    def __init__(self, state: strop.CheckpointState) -> None:
        if not isinstance(state, strop.CheckpointState):
            raise TypeError(f"CheckpointState is made by load_checkpoint, not of {type(state).__name__}")
        self._state = state
        self._parameters = Parameters(state)
        self._properties = Properties(state)

    @classmethod
    def load_checkpoint(cls, checkpoint_uri: str | os.PathLike[str]) -> CheckpointState:
        """Reads a checkpoint file, complete or nominal."""
        return cls(strop.CheckpointState.load_checkpoint(os.fspath(checkpoint_uri)))

    @classmethod
    def save_checkpoint(
        cls,
        state: CheckpointState,
        checkpoint_uri: str | os.PathLike[str],
        include_optimizer_state: bool = False,
    ) -> None:
        """Writes the state to a file, whole or not at all."""
        strop.CheckpointState.save_checkpoint(state._state, os.fspath(checkpoint_uri), include_optimizer_state)

    @property
    def parameters(self) -> Parameters:
        return self._parameters

    @property
    def properties(self) -> Properties:
        return self._properties
