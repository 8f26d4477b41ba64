#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime 1.19.2 trains the artifacts that Strop makes.

build/.../prepare_case makes those of each golden case from its bare model;
the losses must be those that ONNX Runtime had with its own artifacts. Of the
architectures, `strop prepare` makes those that ONNX Runtime has kernels for;
the losses must be PyTorch's.
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
ARCHITECTURES = ROOT / "tests/data/architectures"
BUILD = pathlib.Path(os.environ.get("STROP_BUILD_DIR", ROOT / "build/dev"))
PREPARE = BUILD / "tests/artifacts/prepare_case"
STROP = BUILD / "tools/strop/strop"

# ORT's own numbers for these come with other parameters than Strop's maker
# gives: running statistics that ORT keeps as constants.
EXPECTED_FROM = {"resnet8_bn_constant_stats": "resnet8_bn"}


# Opsets 9 to 21, with options of prepare. The others hold ops that ONNX Runtime cannot train.
FOR_ORT = {"bert": [], "gpt": [], "mobilenet_v2": [], "resnet": [],
           "tcn": ["--opset", "13"], "vit": []}


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
    def train(self, folder, case, rate, steps):
        """The losses of the first steps with the artifacts in `folder`."""
        state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
        module = api.Module(str(folder / "training_model.onnx"), state,
                            str(folder / "eval_model.onnx"))
        optimizer = api.Optimizer(str(folder / "optimizer_model.onnx"), module)
        optimizer.set_learning_rate(rate)
        losses = []
        for batch in batches(case, module.input_names(), steps):
            outputs = module(*batch)
            first = (outputs[0] if isinstance(outputs, (list, tuple))
                     else outputs)
            losses.append(float(np.asarray(first).reshape(())))
            optimizer.step()
            module.lazy_reset_grad()
        return losses

    def expect_losses(self, losses, expected, tolerance):
        self.assertGreater(len(losses), 0)
        expected = expected[:len(losses)].reshape(-1)
        np.testing.assert_allclose(
            losses, expected, rtol=0,
            atol=tolerance * float(np.abs(expected).max()))

    def test_losses_are_those_of_its_own_artifacts(self):
        for name in cases():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                subprocess.run([PREPARE, name, folder], check=True,
                               capture_output=True, text=True)
                recipe = json.loads((GOLDEN / name / "recipe.json").read_text())
                steps = min(4, recipe["train_steps"])
                if recipe["schedule"] or recipe["gradient_accumulation"] > 1:
                    steps = 1
                losses = self.train(pathlib.Path(folder) / name, GOLDEN / name,
                                    recipe["lr"], steps)
                expected = np.load(
                    GOLDEN / EXPECTED_FROM.get(name, name) / "expected.npz")
                self.expect_losses(losses, expected["train_loss"], 2e-5)

    def test_losses_of_architectures_are_those_of_pytorch(self):
        for name, options in FOR_ORT.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                case = ARCHITECTURES / name
                loss = "mse" if name == "tcn" else "cross_entropy"
                subprocess.run([STROP, "prepare", case / "model.onnx", "--loss",
                                loss, "--optimizer", "sgd", "-o", folder,
                                *options], check=True, capture_output=True,
                               text=True)
                expected = np.load(case / "expected.npz")
                losses = self.train(pathlib.Path(folder), case,
                                    float(expected["rate"]),
                                    len(expected["loss"]))
                self.expect_losses(losses, expected["loss"], 1e-5)


if __name__ == "__main__":
    unittest.main()
