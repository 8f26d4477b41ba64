# SPDX-License-Identifier: Apache-2.0
"""What strop.fit takes as data, as batches of arrays in the order of a model's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from ._errors import InvalidArgumentError, TypeMismatchError, UnknownNameError


class Batches(Protocol):
    """Something that gives an epoch's batches each time it is asked."""

    def epoch(self) -> Iterator[list[Any]]: ...

    def __len__(self) -> int:
        """Batches of an epoch; 0 where that is not known."""


def batches_of(
    what: str, data: Any, names: list[str], batch_size: int, shuffle: np.random.Generator | None, epochs: int
) -> Batches:
    """`data` as Batches: a tuple, list or dict of arrays, or an iterable of batches that are such.

    `what` is the argument's name, for errors.
    """
    if isinstance(data, Mapping):
        return ArrayBatches(what, _in_order(what, data, names), batch_size, shuffle)
    if isinstance(data, (tuple, list)) and data and all(_is_array(part) for part in data):
        return ArrayBatches(what, _counted(what, list(data), names), batch_size, shuffle)
    if isinstance(data, Iterator) and epochs > 1:
        raise InvalidArgumentError(
            f"{what}: an iterator is exhausted after one of {epochs} epochs; give something that can be iterated again"
        )
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, np.ndarray)):
        return IteratedBatches(what, data, names)
    wanted = ", ".join(names)
    raise TypeMismatchError(
        f"{what}: wanted arrays for the inputs {wanted} as a tuple or a dict, or an iterable of batches; "
        f"got {type(data).__name__}"
    )


class ArrayBatches:
    """Whole arrays, cut into batches along their first axis; the last batch may be smaller."""

    def __init__(self, what: str, arrays: list[Any], batch_size: int, shuffle: np.random.Generator | None):
        # Tensors of PyTorch are cut as they are: NumPy has not all of their types, nor those of a GPU.
        self.arrays = [array.detach() if hasattr(array, "detach") else np.asarray(array) for array in arrays]
        self.batch_size, self.shuffle = batch_size, shuffle
        lengths = {array.shape[0] if array.ndim else 0 for array in self.arrays}
        if len(lengths) != 1:
            shapes = ", ".join(str(tuple(array.shape)) for array in self.arrays)
            raise InvalidArgumentError(f"{what}: arrays of one length are wanted, got the shapes {shapes}")
        self.count = lengths.pop()
        if self.count == 0:
            raise InvalidArgumentError(f"{what}: there is no sample")

    def epoch(self) -> Iterator[list[Any]]:
        order = self.shuffle.permutation(self.count) if self.shuffle is not None else None
        for begin in range(0, self.count, self.batch_size):
            rows = slice(begin, begin + self.batch_size)
            chosen = order[rows] if order is not None else rows
            yield [array[chosen] for array in self.arrays]

    def __len__(self) -> int:
        return -(-self.count // self.batch_size)

    def split(self, fraction: float) -> tuple[ArrayBatches, ArrayBatches]:
        """The first part, and the last `fraction` of the samples."""
        held = round(self.count * fraction)
        if not 0 < held < self.count:
            raise InvalidArgumentError(
                f"validation: a fraction of {fraction} of {self.count} samples leaves one part empty"
            )
        first = ArrayBatches("data", [a[:-held] for a in self.arrays], self.batch_size, self.shuffle)
        return first, ArrayBatches("data", [a[-held:] for a in self.arrays], self.batch_size, None)


class IteratedBatches:
    """Batches that come from somebody else, such as a torch DataLoader."""

    def __init__(self, what: str, batches: Iterable[Any], names: list[str]):
        self.what, self.batches, self.names = what, batches, names

    def epoch(self) -> Iterator[list[Any]]:
        for batch in self.batches:
            if isinstance(batch, Mapping):
                yield _in_order(self.what, batch, self.names)
            else:
                arrays = list(batch) if isinstance(batch, (tuple, list)) else [batch]
                yield _counted(self.what, arrays, self.names)

    def __len__(self) -> int:
        try:
            return len(self.batches)  # type: ignore[arg-type]
        except TypeError:
            return 0


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _in_order(what: str, arrays: Mapping[str, Any], names: list[str]) -> list[Any]:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise UnknownNameError(f"{what}: there is nothing for the input {missing[0]!r}; it has {', '.join(arrays)}")
    return [arrays[name] for name in names]


def _counted(what: str, arrays: list[Any], names: list[str]) -> list[Any]:
    if len(arrays) != len(names):
        raise InvalidArgumentError(
            f"{what}: {len(names)} arrays are wanted ({', '.join(names)}), {len(arrays)} were given"
        )
    return arrays
