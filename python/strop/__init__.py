# SPDX-License-Identifier: Apache-2.0
"""Trains ONNX models where they run.

>>> import strop
>>> state = strop.CheckpointState.load_checkpoint("checkpoint")    # doctest: +SKIP
>>> module = strop.Module("training_model.onnx", state)            # doctest: +SKIP
>>> optimizer = strop.Optimizer("optimizer_model.onnx", module)    # doctest: +SKIP
>>> loss = module(images, labels)                                  # doctest: +SKIP
>>> optimizer.step(); module.lazy_reset_grad()                     # doctest: +SKIP
"""

from collections.abc import Mapping as _Mapping

from . import _core, artifacts
from ._core import (
    CheckpointState,
    Function,
    LinearLRScheduler,
    Module,
    Optimizer,
    Parameter,
    SessionOptions,
)
from ._core import Parameters as _Parameters
from ._core import Properties as _Properties
from ._errors import Error
from ._fit import Epoch, FitResult, fit
from ._gradient import Gradients, grad

__version__: str = _core.version

_Mapping.register(_Parameters)
_Mapping.register(_Properties)

__all__ = [
    "CheckpointState",
    "Epoch",
    "Error",
    "FitResult",
    "Function",
    "Gradients",
    "LinearLRScheduler",
    "Module",
    "Optimizer",
    "Parameter",
    "SessionOptions",
    "__version__",
    "artifacts",
    "fit",
    "grad",
]
