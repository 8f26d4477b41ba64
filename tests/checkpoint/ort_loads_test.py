#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Strop writes, ONNX Runtime 1.19.2 loads and goes on with.

Checkpoints go through build/.../checkpoint_roundtrip or `strop train`;
ONNX Runtime must then have the same values and train the same losses.
"""

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
    import onnx
    import onnxruntime

GOLDEN = ROOT / "tests/data/golden"
BUILD = pathlib.Path(os.environ.get("STROP_BUILD_DIR", ROOT / "build/dev"))
ROUNDTRIP = BUILD / "tests/checkpoint/checkpoint_roundtrip"
STROP = BUILD / "tools/strop/strop"


def batches(case, names):
    """The recorded inputs of each step, in the model's order."""
    inputs = np.load(case / "inputs.npz")
    return zip(*(inputs[name] for name in names))


def ort_session(case, checkpoint):
    state = api.CheckpointState.load_checkpoint(str(checkpoint))
    module = api.Module(str(case / "training_model.onnx"), state,
                        str(case / "eval_model.onnx"))
    optimizer = api.Optimizer(str(case / "optimizer_model.onnx"), module)
    return state, module, optimizer


def ort_losses(case, checkpoint, nominal_values=None):
    state, module, optimizer = ort_session(case, checkpoint)
    if nominal_values is not None:
        module.copy_buffer_to_parameters(nominal_values, False)
    losses = []
    for batch in list(batches(case, module.input_names()))[:4]:
        outputs = module(*batch)
        first = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
        losses.append(float(first))
        optimizer.step()
        module.lazy_reset_grad()
    return losses


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True)


@unittest.skipIf(api is None, MISSING)
class OrtLoads(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_checkpoints_that_went_through(self):
        for name in ("mlp_ce_adamw", "lenet_ce_sgd", "clip_grad_norm"):
            case = GOLDEN / name
            source = case / "checkpoint_after"
            wanted = ort_losses(case, source)
            self.assertEqual(len(set(wanted)), 4)
            for options in ([], ["--external"]):
                with self.subTest(name=name, options=options):
                    out = self.path / f"{name}{len(options)}"
                    run(ROUNDTRIP, *options, source, out)
                    external = pathlib.Path(f"{out}.data")
                    self.assertEqual(external.exists(), bool(options))
                    self.assertEqual(ort_losses(case, out), wanted)

    def test_nominal_checkpoints(self):
        case = GOLDEN / "nominal"
        out = self.path / "nominal"
        run(ROUNDTRIP, case / "nominal_checkpoint", out)
        _, module, _ = ort_session(case, case / "checkpoint")
        values = module.get_contiguous_parameters(False)
        self.assertEqual(ort_losses(case, out, values),
                         ort_losses(case, case / "checkpoint"))

    def test_a_trained_checkpoint_and_model(self):
        case = GOLDEN / "mlp_ce_adamw"
        inputs = np.load(case / "inputs.npz")
        for name in ("input", "labels"):
            np.save(self.path / f"{name}.npy", np.concatenate(inputs[name]))
        samples = f"input={self.path / 'input.npy'}"
        out = self.path / "trained"
        run(STROP, "train", case, "--input", samples,
            "--input", f"labels={self.path / 'labels.npy'}",
            "--steps", "3", "--output", out)
        run(STROP, "inspect", out / "checkpoint",
            "--dump", self.path / "dump.npz")
        state, _, _ = ort_session(case, out / "checkpoint")
        dumped = np.load(self.path / "dump.npz")
        parameters = list(state.parameters)
        self.assertEqual(len(parameters), 4)
        for name, parameter in parameters:
            np.testing.assert_array_equal(parameter.data, dumped[name])
        self.assertTrue(np.isfinite(
            ort_losses(case, out / "checkpoint")).all())

        model = out / "model.onnx"
        run(STROP, "eval", model, "--input", samples,
            "--dump", self.path / "eval.npz")
        session = onnxruntime.InferenceSession(
            str(model), providers=["CPUExecutionProvider"])
        [wanted] = session.run(None, {"input": np.concatenate(inputs["input"])})
        got = np.load(self.path / "eval.npz")[session.get_outputs()[0].name]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
