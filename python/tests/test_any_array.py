# SPDX-License-Identifier: Apache-2.0
"""Whatever is fed: the right numbers, or one error; never a crash, never a cast that loses values."""
import numpy as np
import pytest

import strop
from conftest import Golden

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as hnp  # noqa: E402

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "S3", "U2", "O", "M8[s]", "g"]


@pytest.fixture(scope="module")
def module():
    case = Golden("mse_regression")
    state = strop.CheckpointState.load_checkpoint(case.path("checkpoint"))
    return strop.Module(case.path("training_model.onnx"), state, case.path("eval_model.onnx")).eval()


@st.composite
def forms(draw, dtypes=st.sampled_from(DTYPES)):
    """An array with any strides, byte order and writability."""
    dtype = np.dtype(draw(dtypes))
    if dtype.kind in "fiuc" and draw(st.booleans()):
        dtype = dtype.newbyteorder(draw(st.sampled_from("<>")))
    some = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=7)
    shape = draw(st.one_of(st.tuples(st.integers(0, 4), st.just(6)), some))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in shape]
    wide = tuple(size * abs(step) for size, step in zip(shape, steps))
    values = np.arange(int(np.prod(wide))) % 7
    array = values.astype(np.float32).astype(dtype) if dtype.kind in "fc" else values.astype("i1").astype(dtype)
    array = array.reshape(wide)[(*(slice(None, None, step) for step in steps), ...)]
    assert array.shape == shape
    if draw(st.booleans()):
        array = array.T.copy().T
    array.flags.writeable = draw(st.booleans()) and array.flags.writeable
    return array


@settings(max_examples=400, deadline=None)
@given(array=forms())
def test_a_step_takes_the_right_arrays_and_no_others(module, array):
    fits = array.dtype.kind == "f" and array.dtype.itemsize == 4 and array.ndim == 2 and array.shape[1] == 6
    if not fits:
        with pytest.raises((ValueError, TypeError)) as caught:
            module(array, np.zeros((len(array) if array.ndim else 1, 3), np.float32))
        assert isinstance(caught.value, strop.Error)
        return
    target = np.zeros((len(array), 3), np.float32)
    before = array.copy()
    results = module(array, target)
    plain = module(np.ascontiguousarray(array, np.float32), target)
    for result, wanted in zip(results, plain):
        np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(array, before)


@settings(max_examples=200, deadline=None)
@given(array=forms())
def test_a_parameter_takes_the_right_arrays_and_no_others(module, array):
    parameter = module.state.parameters["fc1.bias"]
    before = parameter.data
    fits = array.dtype.kind == "f" and array.dtype.itemsize == 4 and array.shape == before.shape
    if fits:
        parameter.data = array
        np.testing.assert_array_equal(parameter.data, array.astype(np.float32))
    else:
        with pytest.raises((ValueError, TypeError)):
            parameter.data = array
        np.testing.assert_array_equal(parameter.data, before)
    parameter.data = before


@given(value=st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.binary(),
                       st.lists(st.text(min_size=1), min_size=1), st.dictionaries(st.text(), st.integers())))
@settings(max_examples=100, deadline=None)
def test_what_is_no_array_is_one_error(module, value):
    with pytest.raises((ValueError, TypeError)):
        module(value, np.zeros((1, 3), np.float32))
