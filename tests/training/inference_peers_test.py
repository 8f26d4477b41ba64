#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exported models give the same outputs in Strop and in ONNX Runtime.

Each golden's inference.onnx runs on the evaluation batch in `strop eval
--dump` and in the stock onnxruntime of .venv-onnx.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import numpy as np
    import onnxruntime
except ImportError:
    onnxruntime = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/data/golden"
BUILD = pathlib.Path(os.environ.get("STROP_BUILD_DIR", ROOT / "build/dev"))
STROP = BUILD / "tools/strop/strop"

# Largest difference over the largest magnitude of an output.
LIMIT = 1e-5


def strop_outputs(model, feed):
    """All outputs of the model, the whole batch in one step."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        arguments = [STROP, "eval", model, "--dump", folder / "out.npz",
                     "--batch-size", str(len(next(iter(feed.values()))))]
        for index, (name, array) in enumerate(feed.items()):
            file = folder / f"{index}.npy"
            np.save(file, array)
            arguments += ["--input", f"{name}={file}"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        with np.load(folder / "out.npz") as outputs:
            return dict(outputs)


def difference(actual, expected):
    scale = max(np.abs(expected).max(), 1e-30)
    return np.abs(actual - expected).max() / scale


@unittest.skipIf(onnxruntime is None,
                 "numpy and onnxruntime are not installed")
class InferencePeers(unittest.TestCase):
    def test_outputs_are_those_of_onnx_runtime(self):
        models = sorted(GOLDEN.glob("*/inference.onnx"))
        self.assertGreater(len(models), 20)
        for model in models:
            with self.subTest(model.parent.name):
                session = onnxruntime.InferenceSession(
                    model, providers=["CPUExecutionProvider"])
                with np.load(model.parent / "inputs.npz") as inputs:
                    feed = {i.name: inputs["eval/" + i.name]
                            for i in session.get_inputs()}
                names = [o.name for o in session.get_outputs()]
                outputs = strop_outputs(model, feed)
                self.assertEqual(sorted(outputs), sorted(names))
                for name, expected in zip(names, session.run(names, feed)):
                    self.assertEqual(outputs[name].shape, expected.shape)
                    self.assertEqual(outputs[name].dtype, expected.dtype)
                    self.assertLess(difference(outputs[name], expected),
                                    LIMIT, name)


if __name__ == "__main__":
    unittest.main()
