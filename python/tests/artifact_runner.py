# SPDX-License-Identifier: Apache-2.0
"""Trains on artifacts with any module that has the classes of onnxruntime.training.api.

artifact_runner.py MODULE ARTIFACTS CASE: the losses with the batches of a golden case, one a line.
"""

import importlib
import json
import pathlib
import sys

import numpy as np


def losses(api, artifacts, case):
    """The losses of all train steps of the case, then that of the eval model."""
    recipe = json.loads((case / "recipe.json").read_text())
    inputs = np.load(case / "inputs.npz")
    state = api.CheckpointState.load_checkpoint(str(artifacts / "checkpoint"))
    module = api.Module(str(artifacts / "training_model.onnx"), state, str(artifacts / "eval_model.onnx"))
    optimizer = api.Optimizer(str(artifacts / "optimizer_model.onnx"), module)
    optimizer.set_learning_rate(recipe["lr"])
    results = []
    for step in range(recipe["train_steps"]):
        batch = [inputs[name][step] if name in inputs else inputs[f"{name}/{step:04}"] for name in module.input_names()]
        results.append(module(*batch))
        optimizer.step()
        module.lazy_reset_grad()
    module.eval()
    results.append(module(*[inputs[f"eval/{name}"] for name in module.input_names()]))
    return [float(np.reshape(result[0] if isinstance(result, tuple) else result, ())) for result in results]


if __name__ == "__main__":
    name, artifacts, case = sys.argv[1:]
    print(*losses(importlib.import_module(name), pathlib.Path(artifacts), pathlib.Path(case)), sep="\n")
