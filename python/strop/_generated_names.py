# SPDX-License-Identifier: Apache-2.0
"""The names of generated tensors and nodes: onnx::<token>::<n>.

As in ONNX Runtime, n counts through the whole process: scripts read a loss by its name, so it must come out the same.
"""

from __future__ import annotations

_used = 0


def generate_name(token: str) -> str:
    """The next name for what `token` tells of: onnx::loss::2."""
    return f"onnx::{token}::{skip_names(1)}"


def names_used() -> int:
    """How many names this process has generated."""
    return _used


def skip_names(count: int) -> int:
    """Counts `count` names as used; returns the number of the last."""
    global _used
    _used += count
    return _used


def set_names_used(count: int) -> None:
    """Goes on after the name of number `count`, as what generated names elsewhere says."""
    global _used
    _used = count
