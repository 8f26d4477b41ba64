# SPDX-License-Identifier: Apache-2.0
"""onnxruntime.training.artifacts and onnxblock are strop's, under every name that scripts import them by."""

import importlib

import pytest

strop_artifacts = pytest.importorskip("strop.artifacts")


def test_artifacts_are_strops():
    from onnxruntime.training import artifacts

    assert artifacts.generate_artifacts is strop_artifacts.generate_artifacts
    assert [kind.value for kind in artifacts.LossType] == [1, 2, 3, 4]
    assert [kind.value for kind in artifacts.OptimType] == [1, 2]


@pytest.mark.parametrize(
    "module",
    [
        "",
        ".blocks",
        ".loss",
        ".loss.loss",
        ".optim",
        ".optim.optim",
        ".model_accessor",
        ".checkpoint_utils",
        ".onnxblock",
        "._graph_utils",
    ],
)
def test_blocks_are_strops(module):
    ours = importlib.import_module("onnxruntime.training.onnxblock" + module)
    strops = importlib.import_module("strop.onnxblock" + module)
    for name in ours.__all__:
        value = getattr(ours, name)
        if isinstance(value, type) or callable(value):
            assert value is getattr(strops, name)


def test_an_enum_and_a_block_of_either_package_are_the_same():
    import strop.onnxblock
    from onnxruntime.training import artifacts, onnxblock

    assert issubclass(onnxblock.loss.MSELoss, strop.onnxblock.Block)
    assert isinstance(artifacts.LossType.MSELoss, strop_artifacts.LossType)


def test_submodules_by_attribute():
    import onnxruntime.training as training
    import onnxruntime.training.onnxblock as onnxblock

    assert training.onnxblock is onnxblock
    assert onnxblock.blocks.Add and onnxblock.loss.loss.MSELoss and onnxblock.optim.optim.AdamWOptimizer
    assert onnxblock.model_accessor.base is onnxblock.base
    assert onnxblock.checkpoint_utils.save_checkpoint is onnxblock.save_checkpoint
