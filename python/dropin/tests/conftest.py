# SPDX-License-Identifier: Apache-2.0
"""These tests are for environments with the drop-in; elsewhere python/tests/test_dropin.py runs them in those."""

from importlib import metadata

try:
    metadata.distribution("strop-onnxruntime-training")
except metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
