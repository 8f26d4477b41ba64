# SPDX-License-Identifier: Apache-2.0
"""What the distribution installs, and how it stands beside stock onnxruntime and beside ONNX Runtime's own wheel.

The tests of this folder run in an environment that holds the drop-in, with stock onnxruntime or without.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
from importlib import metadata

import pytest

STOCK = importlib.util.find_spec("onnxruntime").origin is not None


def python(code, *more_path):
    path = os.pathsep.join([*map(str, more_path), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )


def test_nothing_but_the_training_folder_is_installed():
    files = [pathlib.PurePosixPath(str(file)) for file in metadata.files("strop-onnxruntime-training")]
    others = [file for file in files if file.parts[:2] != ("onnxruntime", "training")]
    assert all(file.parts[0].endswith(".dist-info") for file in others), others
    assert len(others) < len(files)


def test_importing_onnxruntime_alone_is_as_it_was():
    done = python(
        "import sys, onnxruntime\n"
        "print(sorted(name for name in sys.modules if name.startswith(('onnxruntime.training.', 'strop'))))\n"
        "print(getattr(onnxruntime, '__file__', None) is not None, hasattr(onnxruntime, 'InferenceSession'))"
    )
    assert done.stdout.splitlines() == ["[]", f"{STOCK} {STOCK}"], done.stderr


def test_importing_the_package_alone_imports_neither_onnxruntime_nor_strop():
    # onnxruntime up to 1.21 or so looks for onnxruntime.training.ortmodule in its own __init__.
    code = "import sys, onnxruntime.training; print('strop' in sys.modules)"
    assert python(code).stdout.strip() == "False"


@pytest.mark.parametrize("name", ["onnxruntime-training", "onnxruntime-training-cpu"])
def test_a_second_owner_of_the_folder_is_refused(tmp_path, name):
    about = tmp_path / f"{name.replace('-', '_')}-1.19.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.19.2\n")
    for module in ("onnxruntime.training", "onnxruntime.training.api"):
        done = python(f"import {module}", tmp_path)
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert last == (
            f"ImportError: {name} and strop-onnxruntime-training both install onnxruntime/training: "
            "uninstall both, then install one"
        )


def test_submodules_are_there_when_asked_for():
    code = "import onnxruntime.training as t; print(t.api.Module.__name__, 'api' in dir(t), hasattr(t, 'ORTModule'))"
    assert python(code).stdout.split() == ["Module", "True", "False"]
    assert "ORTModule" in python("from onnxruntime.training import ORTModule").stderr
