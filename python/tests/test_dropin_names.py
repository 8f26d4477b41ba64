# SPDX-License-Identifier: Apache-2.0
"""The drop-in has the names of ONNX Runtime 1.19.2, with the same parameters in the same order."""

import json
import pathlib

import environments
import public_names
import pytest

# Where the drop-in differs, and why no script sees it.
DIFFERENT = {
    "api.checkpoint_state.Parameter.()": "parameters are made by a state alone",
    "api.lr_scheduler.Optimizer": "an import of that module",
    "onnxblock.optim.optim.SGDOptimizer.build": "the order is the same, two of the names are exchanged there",
}


@pytest.fixture(scope="module")
def both():
    script = pathlib.Path(public_names.__file__)
    return json.loads(environments.ort()(script)), json.loads(environments.dropin()(script))


def missing(wanted, found, where=""):
    """What `wanted` has and `found` has not, or has with other parameters."""
    for name, inner in wanted.items():
        path = f"{where}.{name}".lstrip(".")
        if path in DIFFERENT:
            continue
        if name not in found:
            yield path
        elif isinstance(inner, dict):
            yield from missing(inner, found[name], path)
        elif inner is not None and found[name] is not None and inner != found[name][: len(inner)]:
            yield f"{path}: {inner}, found {found[name]}"


@pytest.mark.parametrize("module", public_names.MODULES)
def test_the_names_of_a_module(both, module):
    ort, dropin = both
    assert len(ort[module]) > 0
    assert list(missing(ort[module], dropin[module], module)) == []
