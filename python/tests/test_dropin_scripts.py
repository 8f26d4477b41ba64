# SPDX-License-Identifier: Apache-2.0
"""Scripts for ONNX Runtime's training API print the same numbers with ONNX Runtime 1.19.2 and with the drop-in."""

import pathlib

import environments
import pytest

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


def number(word):
    try:
        return float(word)
    except ValueError:
        return None


def assert_same(printed, expected):
    lines, wanted = printed.splitlines(), expected.splitlines()
    assert len(lines) == len(wanted) > 0, printed
    for line, other in zip(lines, wanted):
        words, others = line.split(), other.split()
        assert len(words) == len(others), f"{line}\nwanted:\n{other}"
        for word, wanted_word in zip(words, others):
            value = number(wanted_word)
            same = word == wanted_word if value is None else number(word) == pytest.approx(value, rel=1e-5, abs=1e-5)
            assert same, f"{word}, not {wanted_word}, in\n{line}\nwanted:\n{other}"


@pytest.mark.parametrize("script", ALL)
def test_a_script_prints_the_same_beside_stock_onnxruntime(script, printed_by_ort):
    run = environments.dropin()
    assert_same(run(SCRIPTS / f"{script}.py", *arguments_of(script)[0]), printed_by_ort(script))


@pytest.mark.parametrize("script", [script for script in ALL if script not in NEED_ONNXRUNTIME])
def test_a_script_prints_the_same_without_onnxruntime(script, printed_by_ort):
    run = environments.dropin_alone()
    assert_same(run(SCRIPTS / f"{script}.py", *arguments_of(script)[0]), printed_by_ort(script))
