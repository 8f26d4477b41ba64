# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime loads the checkpoints that Strop writes.

ONNX Runtime loads each file and saves it again: it must understand every
field to write the same bytes. Skipped without onnxruntime-training.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path


def load_api():
    """onnxruntime.training.api without the PyTorch that its parent imports;
    None where this Python does not have it."""
    spec = importlib.util.find_spec("onnxruntime")
    folder = Path(spec.origin).parent / "training" if spec else None
    if folder is None or not folder.is_dir():
        return None
    import onnxruntime  # noqa: F401

    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(folder)]
    sys.modules["onnxruntime.training"] = package
    from onnxruntime.training import api

    return api


api = load_api()


@unittest.skipIf(api is None, "this Python has no onnxruntime-training")
class OrtLoadsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.ours = Path(folder.name, "ours")
        cls.theirs = Path(folder.name, "theirs")
        cls.ours.mkdir()
        cls.theirs.mkdir()
        tool = Path(
            os.environ["STROP_BUILD_DIR"],
            "tests/checkpoint/write_checkpoints",
        )
        subprocess.run([tool, cls.ours], check=True)

    def test_every_file_is_the_same_after_onnx_runtime(self):
        names = sorted(
            p.name for p in self.ours.iterdir() if p.suffix != ".data"
        )
        self.assertGreaterEqual(len(names), 20)
        for name in names:
            # ONNX Runtime gives placeholders bytes that mean nothing.
            if name.endswith("nominal_checkpoint"):
                continue
            with self.subTest(name):
                state = api.CheckpointState.load_checkpoint(self.ours / name)
                api.CheckpointState.save_checkpoint(
                    state, self.theirs / name, include_optimizer_state=True
                )
                for file in (name, name + ".data"):
                    self.assertEqual(
                        self.content(self.ours / file),
                        self.content(self.theirs / file),
                        file,
                    )

    def test_a_nominal_file(self):
        state = api.CheckpointState.load_checkpoint(
            self.ours / "nominal_nominal_checkpoint"
        )
        self.assertEqual(len(state.parameters), 4)
        self.assertIn("fc1.weight", state.parameters)
        with self.assertRaisesRegex(RuntimeError, "load the parameter states"):
            state.parameters["fc1.weight"]

    @staticmethod
    def content(path):
        return path.read_bytes() if path.exists() else None

    def test_known_values(self):
        state = api.CheckpointState.load_checkpoint(self.ours / "known")
        self.assertEqual(state.properties["epoch"], 3)
        self.assertEqual(state.properties["best"], 0.25)
        self.assertEqual(state.properties["tag"], "hi")
        trainable = {name: p.requires_grad for name, p in state.parameters}
        self.assertEqual(trainable, {"w": True, "f": False})


if __name__ == "__main__":
    unittest.main()
