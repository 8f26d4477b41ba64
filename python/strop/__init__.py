# SPDX-License-Identifier: Apache-2.0
"""Trains ONNX models where they run.

In one call, from a model for inference (fit), or step by step from training artifacts (Module, Optimizer), which
strop.artifacts makes:

>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state, "eval_model.onnx")
>>> optimizer = strop.Optimizer("optimizer_model.onnx", module)
>>> for _ in range(10):
...     loss = module(x, labels)
...     optimizer.step()
...     module.lazy_reset_grad()
>>> module.export_model_for_inferencing("trained.onnx", ["output"])
>>> outputs, gradients = strop.grad("trained.onnx", x, "input")

The examples of this package run in a folder with a classifier, model.onnx, that makes of float32 [batch, 6], "input",
scores of three classes, float32 [batch, 3], "output"; with its artifacts; and with the data

    x, labels = np.random.default_rng(0).random((8, 6), np.float32), np.zeros(8, np.int64)

Whatever fails raises strop.Error, which is also the built-in exception that fits; see there.
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
