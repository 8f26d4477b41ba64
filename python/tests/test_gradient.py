# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import strop
from conftest import DATA

LENET = DATA / "golden/lenet_ce_sgd/model.onnx"


@pytest.fixture
def images():
    return np.random.default_rng(0).standard_normal((2, 1, 20, 20)).astype(np.float32)


def test_the_gradient_by_an_input_is_the_slope(images):
    result = strop.grad(LENET, images, "input")
    assert list(result.outputs) == strop.Function(LENET).output_names()
    gradient = result.gradients["input"]
    assert gradient.shape == images.shape and gradient.dtype == np.float32
    direction = np.sign(gradient)
    function = strop.Function(LENET)

    def total(step):
        outputs, _ = function(images + np.float32(step) * direction)
        return sum(float(v) for v in outputs[function.output_names()[0]].astype(np.float64).reshape(-1))

    slope = (total(1e-3) - total(-1e-3)) / 2e-3
    assert slope == pytest.approx(float(np.abs(gradient).sum()), rel=1e-2)


def test_a_seed_chooses_a_class(images):
    outputs, _ = strop.Function(LENET)(images)
    name, scores = next(iter(outputs.items()))
    total = np.zeros((2, 1, 20, 20), np.float32)
    for label in range(scores.shape[1]):
        seed = np.zeros_like(scores)
        seed[:, label] = 1
        total += strop.grad(LENET, {"input": images}, ["input"], of=name, seed=seed).gradients["input"]
    np.testing.assert_allclose(total, strop.grad(LENET, images, "input").gradients["input"], atol=1e-5)


def test_gradients_by_parameters(images):
    gradients = strop.grad(LENET, [images], ["conv1.weight", "fc2.bias"]).gradients
    np.testing.assert_allclose(gradients["fc2.bias"], np.full(10, 2, np.float32))
    assert gradients["conv1.weight"].any()


def test_values_between(images):
    function = strop.Function(LENET, outputs=["input"])
    outputs, gradients = function(images)
    np.testing.assert_array_equal(outputs["input"], images)
    assert gradients == {}


def test_errors(images):
    with pytest.raises(KeyError, match="nobody"):
        strop.grad(LENET, images, "nobody")
    with pytest.raises(KeyError, match="nobody"):
        strop.grad(LENET, {"nobody": images}, "input")
    with pytest.raises(ValueError, match="missing"):
        strop.grad(LENET, {}, "input")
    with pytest.raises(TypeError, match="float64"):
        strop.grad(LENET, images.astype(np.float64), "input")
    with pytest.raises(ValueError):
        strop.grad(LENET, images[:, :, 1:], "input")
    with pytest.raises(FileNotFoundError):
        strop.grad("no_such.onnx", images, "input")
