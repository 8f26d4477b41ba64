# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime 1.19.2's training interface, for tests that use the peer.

`api` is None where the wheel is not installed (no Python above 3.11, no ARM).
"""

import pathlib
import sys
import types

try:
    import numpy  # noqa: F401  what the wheel needs
    import onnxruntime

    # Without the package's own __init__, which wants torch.
    _package = types.ModuleType("onnxruntime.training")
    _package.__path__ = [
        str(pathlib.Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = _package
    from onnxruntime.training import api
except ImportError:
    api = None

MISSING = ("onnxruntime-training 1.19.2 has no wheel for this Python or "
           "machine")
