# SPDX-License-Identifier: Apache-2.0
import importlib
import os
import pathlib
import subprocess
import sys

import pytest

import strop

SCRIPT = """
from typing import Any

import numpy as np
import strop

state: strop.CheckpointState = strop.CheckpointState.load_checkpoint("checkpoint")
module = strop.Module("training_model.onnx", state)
optimizer = strop.Optimizer("optimizer_model.onnx", module)
rate: float = optimizer.get_learning_rate()
names: list[str] = module.input_names()
for name, parameter in state.parameters.items():
    value: np.ndarray[Any, Any] = parameter.data
flat: np.ndarray[Any, Any] = module.get_contiguous_parameters()
outputs: dict[str, np.ndarray[Any, Any]] = strop.grad("model.onnx", [flat], ["x"]).outputs
"""


def mypy(folder, *arguments):
    pytest.importorskip("mypy")
    environment = dict(os.environ)
    package = pathlib.Path(strop.__file__).parents[1]
    if package.name != "site-packages":
        environment["MYPYPATH"] = str(package)
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *arguments], capture_output=True, text=True,
                          cwd=folder, env=environment)


def test_the_package_is_typed_strictly(tmp_path):
    done = mypy(tmp_path, "--ignore-missing-imports", "-p", "strop")  # onnx may not be there
    assert done.returncode == 0, done.stdout


def test_its_types_reach_a_user(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = mypy(tmp_path, str(script))
    assert done.returncode == 0, done.stdout
    script.write_text(SCRIPT + "state.parameters = 3\n")
    assert mypy(tmp_path, str(script)).returncode != 0


def test_importing_is_light():
    script = "import numpy, sys; before = set(sys.modules); import strop; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "strop" in loaded
    assert not {"onnx", "torch", "onnxruntime", "matplotlib", "tqdm"} & {name.split(".")[0] for name in loaded}
    assert importlib.import_module("strop") is strop
