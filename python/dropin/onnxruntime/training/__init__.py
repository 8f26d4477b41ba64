# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's training API on Strop: api, artifacts and onnxblock.

Some releases of onnxruntime look for onnxruntime.training while they are being imported themselves: nothing here may
import onnxruntime, strop, or anything slow. The submodules are imported when they are first asked for.
"""

import importlib as _importlib
from importlib import metadata as _metadata
from typing import Any as _Any

__all__ = ["api", "artifacts", "onnxblock"]


def _refuse_a_second_owner() -> None:
    """Raises ImportError where ONNX Runtime's own training wheel is installed too."""
    for name in ("onnxruntime-training", "onnxruntime-training-cpu"):
        try:
            _metadata.distribution(name)
        except _metadata.PackageNotFoundError:
            continue
        raise ImportError(
            f"{name} and strop-onnxruntime-training both install onnxruntime/training: "
            "uninstall both, then install one"
        )


_refuse_a_second_owner()


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} (of strop-onnxruntime-training) has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
