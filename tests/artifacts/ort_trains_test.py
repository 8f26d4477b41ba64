#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime 1.19.2 trains the artifacts that Strop makes.

build/.../prepare_case makes those of each golden case from its bare model;
the losses must be those that ONNX Runtime had with its own artifacts.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from ort_training import MISSING, api  # noqa: E402

if api is not None:
    import numpy as np

GOLDEN = ROOT / "tests/data/golden"
BUILD = pathlib.Path(os.environ.get("STROP_BUILD_DIR", ROOT / "build/dev"))
PREPARE = BUILD / "tests/artifacts/prepare_case"

# ORT's own numbers for these come with other parameters than Strop's maker
# gives: running statistics that ORT keeps as constants.
EXPECTED_FROM = {"resnet8_bn_constant_stats": "resnet8_bn"}


def cases():
    for recipe in sorted(GOLDEN.glob("*/recipe.json")):
        if "generate_artifacts" in json.loads(recipe.read_text()):
            yield recipe.parent.name


def batches(case, names, count):
    """The recorded inputs of the first steps, in the model's order."""
    inputs = np.load(case / "inputs.npz")
    for step in range(count):
        yield [inputs[name][step] if name in inputs
               else inputs[f"{name}/{step:04}"] for name in names]


@unittest.skipIf(api is None, MISSING)
class OrtTrains(unittest.TestCase):
    def train(self, name, folder):
        case = GOLDEN / name
        recipe = json.loads((case / "recipe.json").read_text())
        state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
        module = api.Module(str(folder / "training_model.onnx"), state,
                            str(folder / "eval_model.onnx"))
        optimizer = api.Optimizer(str(folder / "optimizer_model.onnx"), module)
        optimizer.set_learning_rate(recipe["lr"])
        losses = []
        steps = min(4, recipe["train_steps"])
        if recipe["schedule"] or recipe["gradient_accumulation"] > 1:
            steps = 1
        for batch in batches(case, module.input_names(), steps):
            outputs = module(*batch)
            first = (outputs[0] if isinstance(outputs, (list, tuple))
                     else outputs)
            losses.append(float(np.asarray(first).reshape(())))
            optimizer.step()
            module.lazy_reset_grad()
        return losses

    def test_losses_are_those_of_its_own_artifacts(self):
        for name in cases():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                subprocess.run([PREPARE, name, folder], check=True,
                               capture_output=True, text=True)
                losses = self.train(name, pathlib.Path(folder) / name)
                expected = np.load(
                    GOLDEN / EXPECTED_FROM.get(name, name) / "expected.npz")
                expected = expected["train_loss"][:len(losses)].reshape(-1)
                self.assertGreater(len(losses), 0)
                np.testing.assert_allclose(
                    losses, expected, rtol=0,
                    atol=2e-5 * float(np.abs(expected).max()))


if __name__ == "__main__":
    unittest.main()
