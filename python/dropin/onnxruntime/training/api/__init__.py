# SPDX-License-Identifier: Apache-2.0
"""States, modules, optimizers and schedules, as onnxruntime.training.api has them."""

from strop import SessionOptions

from .checkpoint_state import CheckpointState
from .lr_scheduler import LinearLRScheduler
from .module import Module
from .optimizer import Optimizer

# SessionOptions is an addition, for scripts without stock onnxruntime.
__all__ = ["CheckpointState", "LinearLRScheduler", "Module", "Optimizer", "SessionOptions"]
