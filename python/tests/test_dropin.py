# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the drop-in (python/dropin/tests) in environments that hold it."""

import environments
import pytest

TESTS = environments.DROPIN / "tests"


@pytest.mark.parametrize("file", sorted(path.name for path in TESTS.glob("test_*.py")))
@pytest.mark.parametrize("environment", [environments.dropin, environments.dropin_alone])
def test_the_dropin(environment, file):
    environment()("-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS / file)
