# SPDX-License-Identifier: Apache-2.0
"""LinearLRScheduler(optimizer, warmup_step_count, total_step_count, initial_lr): step."""

from strop import LinearLRScheduler

__all__ = ["LinearLRScheduler"]
