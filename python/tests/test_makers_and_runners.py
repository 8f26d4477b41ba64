# SPDX-License-Identifier: Apache-2.0
"""Artifacts that ONNX Runtime 1.19.2 and Strop make, each trained by both: equal losses."""

import pathlib

import artifact_runner
import environments
import numpy as np
import pytest
import strop

artifacts = pytest.importorskip("strop.artifacts")
onnx = pytest.importorskip("onnx")

CASES = [
    "bce_multilabel",
    "bert_tiny",
    "gru_last",
    "l1_regression",
    "lenet_ce_sgd",
    "mlp_ce_adamw",
    "mobilenet_block_frozen",
]


def make(case, folder):
    arguments = dict(case.recipe["generate_artifacts"])
    artifacts.generate_artifacts(
        onnx.load(case.path("model.onnx")),
        requires_grad=arguments["requires_grad"],
        frozen_params=arguments["frozen_params"],
        loss=artifacts.LossType[arguments["loss"]],
        optimizer=artifacts.OptimType[arguments["optimizer"]],
        artifact_directory=folder,
        additional_output_names=arguments["additional_output_names"],
    )


@pytest.mark.parametrize("name", CASES)
def test_four_combinations_give_equal_losses(golden, name, tmp_path):
    case = golden(name)
    make(case, tmp_path)
    folders = {"ORT's artifacts": case.folder, "Strop's artifacts": tmp_path}
    ort, script = environments.ort(), pathlib.Path(artifact_runner.__file__)
    losses = {}
    for maker, folder in folders.items():
        losses[f"{maker} in Strop"] = artifact_runner.losses(strop, folder, case.folder)
        printed = ort(script, "onnxruntime.training.api", folder, case.folder)
        losses[f"{maker} in ORT"] = [float(line) for line in printed.split()]
    expected = losses["ORT's artifacts in ORT"]
    assert len(expected) == case.recipe["train_steps"] + 1
    if case.recipe["schedule"] is None:
        np.testing.assert_allclose(expected[:-1], case.expected["train_loss"].reshape(-1), rtol=1e-5)
    for combination, values in losses.items():
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6, err_msg=combination)
