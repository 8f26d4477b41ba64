# SPDX-License-Identifier: Apache-2.0
import json
import pathlib

import numpy as np
import pytest

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data"


class Golden:
    """A case of tests/data/golden: artifacts, batches and what ORT computed."""

    def __init__(self, name):
        self.folder = DATA / "golden" / name
        self.recipe = json.loads((self.folder / "recipe.json").read_text())
        self.inputs = np.load(self.folder / "inputs.npz")
        self.expected = np.load(self.folder / "expected.npz")

    def path(self, name):
        return self.folder / name

    def batch(self, step, names):
        """The inputs of a train step, in the order of `names`."""
        return [self.inputs[name][step] if name in self.inputs
                else self.inputs[f"{name}/{step:04}"] for name in names]

    def eval_batch(self, names):
        return [self.inputs[f"eval/{name}"] for name in names]


@pytest.fixture
def golden():
    return Golden


@pytest.fixture
def mlp():
    return Golden("mlp_ce_adamw")
