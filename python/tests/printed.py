# SPDX-License-Identifier: Apache-2.0
"""Compares what two runs of a script print."""

import pytest


def _number(word):
    try:
        return float(word)
    except ValueError:
        return None


def assert_same(printed, expected):
    """The same words, and numbers that agree to 1e-5."""
    lines, wanted = printed.splitlines(), expected.splitlines()
    assert len(lines) == len(wanted) > 0, printed
    for line, other in zip(lines, wanted):
        words, others = line.split(), other.split()
        assert len(words) == len(others), f"{line}\nwanted:\n{other}"
        for word, wanted_word in zip(words, others):
            value = _number(wanted_word)
            same = word == wanted_word if value is None else _number(word) == pytest.approx(value, rel=1e-5, abs=1e-5)
            assert same, f"{word}, not {wanted_word}, in\n{line}\nwanted:\n{other}"
