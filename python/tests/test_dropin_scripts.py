# SPDX-License-Identifier: Apache-2.0
"""Scripts for ONNX Runtime's training API print the same numbers with ONNX Runtime 1.19.2 and with the drop-in."""

import pathlib

import environments
import pytest
from printed import assert_same

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
# The one difference in arguments: ONNX Runtime takes the two counts of a schedule in exchanged order.
ARGUMENTS = {"scheduler": (["3", "9"], ["9", "3"])}
ALL = sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "networks")
NEED_ONNXRUNTIME = {"ort_values"}


def arguments_of(script):
    return ARGUMENTS.get(script, ([], []))


@pytest.fixture(scope="module")
def printed_by_ort():
    printed = {}

    def run(script):
        if script not in printed:
            printed[script] = environments.ort()(SCRIPTS / f"{script}.py", *arguments_of(script)[1])
        return printed[script]

    return run


@pytest.mark.parametrize("script", ALL)
def test_a_script_prints_the_same_beside_stock_onnxruntime(script, printed_by_ort):
    run = environments.dropin()
    assert_same(run(SCRIPTS / f"{script}.py", *arguments_of(script)[0]), printed_by_ort(script))


@pytest.mark.parametrize("script", [script for script in ALL if script not in NEED_ONNXRUNTIME])
def test_a_script_prints_the_same_without_onnxruntime(script, printed_by_ort):
    run = environments.dropin_alone()
    assert_same(run(SCRIPTS / f"{script}.py", *arguments_of(script)[0]), printed_by_ort(script))
