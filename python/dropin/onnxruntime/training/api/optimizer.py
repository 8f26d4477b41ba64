# SPDX-License-Identifier: Apache-2.0
"""Optimizer(optimizer_uri, module): step, set_learning_rate, get_learning_rate."""

from strop import Optimizer

__all__ = ["Optimizer"]
