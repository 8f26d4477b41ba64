# SPDX-License-Identifier: Apache-2.0
"""examples/python, each on a part of the data."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import strop

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def run(script, *arguments):
    if not DATA.exists():
        pytest.skip(f"there is no {DATA}: install Debian's dataset-fashion-mnist")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": str(pathlib.Path(strop.__file__).parents[1])}
    done = subprocess.run([sys.executable, EXAMPLES / script, *map(str, arguments)], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    path = tmp_path_factory.mktemp("example") / "tuned.onnx"
    return path, run("fine_tune.py", "--images", 6000, "--epochs", 2, "--output", path)


def test_fine_tuning_learns(tuned):
    path, printed = tuned
    assert path.stat().st_size > 100_000
    assert float(re.search(r"test accuracy ([\d.]+)", printed)[1]) > 0.6


def test_saliency_draws(tuned, tmp_path):
    pytest.importorskip("matplotlib")
    printed = run("saliency.py", tuned[0], "--count", 3, "--output", tmp_path / "s.png")
    assert len(printed.split()) == 4
    assert (tmp_path / "s.png").stat().st_size > 3000
