# SPDX-License-Identifier: Apache-2.0
"""onnxruntime.training.api: what goes in, what comes out, and which errors are raised."""

import importlib.util
import pathlib

import numpy as np
import pytest
from onnxruntime.training import api
from onnxruntime.training.api.checkpoint_state import Parameter, Parameters, Properties

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests/data/golden"
MLP = GOLDEN / "mlp_ce_adamw"
stock = pytest.mark.skipif(importlib.util.find_spec("onnxruntime").origin is None, reason="needs stock onnxruntime")
without_stock = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime").origin is not None, reason="for where stock onnxruntime is not installed"
)


@pytest.fixture
def state():
    return api.CheckpointState.load_checkpoint(MLP / "checkpoint")


@pytest.fixture
def module(state):
    return api.Module(MLP / "training_model.onnx", state, MLP / "eval_model.onnx")


@pytest.fixture
def batch():
    inputs = np.load(MLP / "inputs.npz")
    return inputs["input"][0], inputs["labels"][0]


def test_the_names_are_onnx_runtimes():
    from onnxruntime.training.api.checkpoint_state import CheckpointState
    from onnxruntime.training.api.lr_scheduler import LinearLRScheduler
    from onnxruntime.training.api.module import Module
    from onnxruntime.training.api.optimizer import Optimizer

    assert (api.CheckpointState, api.LinearLRScheduler, api.Module, api.Optimizer) == (
        CheckpointState,
        LinearLRScheduler,
        Module,
        Optimizer,
    )
    assert {"CheckpointState", "LinearLRScheduler", "Module", "Optimizer"} < set(api.__all__)


def test_every_argument_has_its_name(tmp_path, state):
    state = api.CheckpointState.load_checkpoint(checkpoint_uri=str(MLP / "checkpoint"))
    module = api.Module(
        train_model_uri=str(MLP / "training_model.onnx"),
        state=state,
        eval_model_uri=str(MLP / "eval_model.onnx"),
        device="cpu:0",
        session_options=None,
    )
    optimizer = api.Optimizer(optimizer_uri=MLP / "optimizer_model.onnx", module=module)
    optimizer.set_learning_rate(learning_rate=0.5)
    api.LinearLRScheduler(
        optimizer=optimizer, warmup_step_count=np.int64(2), total_step_count=4, initial_lr=np.float32(0.25)
    ).step()
    assert optimizer.get_learning_rate() == 0
    assert module.train(mode=False) is module and module.train() is module and module.eval() is module
    buffer = module.get_contiguous_parameters(trainable_only=True)
    module.copy_buffer_to_parameters(buffer=buffer, trainable_only=True)
    assert module.get_parameters_size(trainable_only=True) == buffer.numpy().size
    module.export_model_for_inferencing(
        inference_model_uri=tmp_path / "inference.onnx", graph_output_names=[module.output_names()[0]]
    )
    api.CheckpointState.save_checkpoint(
        state=state, checkpoint_uri=tmp_path / "checkpoint", include_optimizer_state=True
    )


def test_a_state_is_made_by_load_checkpoint_only(state):
    with pytest.raises(TypeError):
        api.CheckpointState(3)
    with pytest.raises(TypeError):
        api.CheckpointState.load_checkpoint(3)
    with pytest.raises(RuntimeError):
        api.CheckpointState.load_checkpoint("no such file")

    class Mine(api.CheckpointState):
        pass

    assert type(Mine.load_checkpoint(MLP / "checkpoint")) is Mine


def test_parameters_iterate_as_pairs_in_the_order_of_their_names(state):
    pairs = list(state.parameters)
    assert [name for name, _ in pairs] == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    assert all(isinstance(parameter, Parameter) and parameter.name == name for name, parameter in pairs)
    assert len(state.parameters) == 4 and isinstance(state.parameters, Parameters)
    assert "fc1.bias" in state.parameters and "fc3.bias" not in state.parameters
    assert dict(state.parameters)["fc1.bias"].data.shape == (64,)
    assert repr(state.parameters["fc1.bias"]) == "Parameter(name=fc1.bias, requires_grad=True)"
    assert "fc1.bias" in repr(state.parameters)


def test_data_and_grad_are_the_values_in_place(state):
    assert state.parameters["fc1.bias"].grad is None
    api.Module(MLP / "training_model.onnx", state)
    parameter = state.parameters["fc1.bias"]
    assert not parameter.grad.any()
    parameter.data[:] = 2
    parameter.grad[:] = 3
    other = state.parameters["fc1.bias"]
    assert (other.data == 2).all() and (other.grad == 3).all()
    kept = np.arange(64, dtype=np.float32)
    parameter.data = kept
    kept[:] = 0
    np.testing.assert_array_equal(other.data, np.arange(64))


def test_values_outlive_the_state():
    data = api.CheckpointState.load_checkpoint(MLP / "checkpoint").parameters["fc1.weight"].data
    expected = api.CheckpointState.load_checkpoint(MLP / "checkpoint").parameters["fc1.weight"].data.copy()
    np.testing.assert_array_equal(data, expected)


def test_wrong_parameters_raise_what_onnx_runtime_raised(state):
    parameters = state.parameters
    with pytest.raises(KeyError):
        parameters["nope"]
    with pytest.raises(KeyError):
        parameters["nope"] = np.zeros(3, np.float32)
    for value in (np.zeros(3, np.float32), np.zeros(64)):
        with pytest.raises(RuntimeError):
            parameters["fc1.bias"] = value
        with pytest.raises(RuntimeError):
            parameters["fc1.bias"].data = value


@pytest.mark.parametrize(
    ("value", "kept"),
    [(7, 7), (True, 1), (np.int64(5), 5), (0.1, float(np.float32(0.1))), (np.float32(1.5), 1.5), ("text", "text")],
)
def test_properties_keep_numbers_and_text(state, value, kept):
    state.properties["b"] = value
    state.properties["a"] = "first"
    assert state.properties["b"] == kept and type(state.properties["b"]) is type(kept)
    assert list(state.properties) == [("a", "first"), ("b", kept)]
    assert len(state.properties) == 2 and "b" in state.properties and "c" not in state.properties
    assert "b" in repr(state.properties) and isinstance(state.properties, Properties)


@pytest.mark.parametrize("value", [None, [1], b"bytes", {}])
def test_properties_refuse_what_a_checkpoint_cannot_hold(state, value):
    with pytest.raises(TypeError):
        state.properties["b"] = value
    with pytest.raises(KeyError):
        state.properties["b"]


def test_a_nominal_state_says_what_to_load_first():
    state = api.CheckpointState.load_checkpoint(GOLDEN / "nominal/nominal_checkpoint")
    assert len(state.parameters) == 4 and "fc1.bias" in state.parameters
    with pytest.raises(RuntimeError, match="Please load the parameter states first"):
        state.parameters["fc1.bias"]
    with pytest.raises(RuntimeError, match="Please load the parameter states first"):
        list(state.parameters)
    with pytest.raises(RuntimeError, match="Please load all the parameter states first"):
        state.parameters["fc1.bias"] = np.zeros(3, np.float32)
    module = api.Module(GOLDEN / "nominal/training_model.onnx", state)
    with pytest.raises(RuntimeError, match="Please load the model parameters first"):
        api.Optimizer(GOLDEN / "nominal/optimizer_model.onnx", module).step()


def test_a_step_gives_an_array_of_rank_0(module, batch):
    loss = module(*batch)
    assert type(loss) is np.ndarray and loss.shape == () and loss.dtype == np.float32
    kept = float(loss)
    module(batch[0] * 2, batch[1])
    assert float(loss) == kept


def test_lists_beside_an_array_are_read_as_arrays(module, batch):
    expected = float(module(*batch))
    assert float(module(batch[0], batch[1].tolist())) == expected
    assert float(module(batch[0].tolist(), batch[1])) == expected  # floats of no size: those of the model
    with pytest.raises(RuntimeError):
        module([[1.0], [1.0, 2.0]], batch[1])


def test_wrong_inputs_raise_runtime_errors(module, batch):
    images, labels = batch
    for inputs in (
        (images,),
        (images, labels, images),
        (images.astype(np.float64), labels),
        (images[:, :5], labels),
        (None, labels),
        (images, labels.astype(np.int32)),
    ):
        with pytest.raises(RuntimeError):
            module(*inputs)
    module.eval()
    with pytest.raises(RuntimeError):
        module(images)


def test_modes(module, state):
    assert module.training is True and module.eval().training is False
    assert module.input_names() == ["input", "labels"] and len(module.output_names()) == 1
    bare = api.Module(MLP / "training_model.onnx", state).eval()
    assert bare.input_names() == bare.output_names() == []
    with pytest.raises(RuntimeError):
        bare(np.zeros((1, 784), np.float32), np.zeros(1, np.int64))


def test_devices(state):
    for device in ("cpu", "cpu:0", "cpu:1"):
        api.Module(MLP / "training_model.onnx", state, device=device)
    for device in ("cuda", "cuda:0", "abacus"):
        with pytest.raises(RuntimeError, match=device.split(":")[0]):
            api.Module(MLP / "training_model.onnx", state, device=device)
    with pytest.raises(ValueError):
        api.Module(MLP / "training_model.onnx", state, device="cpu:first")


def test_missing_files_and_foreign_states_are_refused(state, module):
    for attempt in (
        lambda: api.Module("no such file", state),
        lambda: api.Module(MLP / "training_model.onnx", state, "no such file"),
        lambda: api.Optimizer("no such file", module),
    ):
        with pytest.raises(RuntimeError, match="no such file"):
            attempt()
    with pytest.raises((AttributeError, TypeError)):
        api.Module(MLP / "training_model.onnx", 3)
    with pytest.raises(TypeError):
        api.Optimizer(MLP / "optimizer_model.onnx", 3)


def test_a_flat_buffer_is_changed_in_place_and_copied_in(module, state):
    buffer = module.get_contiguous_parameters(trainable_only=False)
    assert buffer.shape() == [50890] and buffer.data_type() == "tensor(float)" and buffer.device_name() == "Cpu"
    assert buffer.has_value() and buffer.is_tensor() and buffer.element_type() == 1 and buffer.data_ptr() != 0
    buffer.update_inplace(np.full(50890, 1, np.float32))
    module.copy_buffer_to_parameters(buffer)
    assert all((parameter.data == 1).all() for _, parameter in state.parameters)
    module.copy_buffer_to_parameters(np.full(50890, 3, np.float32))
    assert (state.parameters["fc2.bias"].data == 3).all()
    with pytest.raises(RuntimeError):
        module.copy_buffer_to_parameters(np.zeros(5, np.float32))
    with pytest.raises(RuntimeError):
        module.copy_buffer_to_parameters(np.zeros(50890))


@without_stock
def test_a_flat_buffer_refuses_arrays_of_another_kind(module):
    buffer = module.get_contiguous_parameters()
    with pytest.raises(RuntimeError):
        buffer.update_inplace(np.zeros(5, np.float32))
    with pytest.raises(RuntimeError):
        buffer.update_inplace(np.zeros(50890))


@stock
def test_a_flat_buffer_is_a_native_ort_value(module):
    from onnxruntime import OrtValue

    buffer = OrtValue(module.get_contiguous_parameters())
    assert buffer.numpy().size == 50890
    module.copy_buffer_to_parameters(buffer)  # ONNX Runtime takes the native object alone
    module.copy_buffer_to_parameters(buffer._ortvalue)


@stock
def test_ort_values_give_ort_values(module, batch):
    from onnxruntime import OrtValue

    values = [OrtValue.ortvalue_from_numpy(array) for array in batch]
    expected = float(module(*batch))
    for mode in (True, False):
        loss = module.train(mode)(*values)
        assert type(loss) is OrtValue and loss.shape() == [] and float(loss.numpy()) == expected
        mixed = module(values[0], batch[1])
        assert type(mixed) is np.ndarray and float(mixed) == expected


@stock
def test_an_output_ort_value_keeps_its_memory(batch, state):
    import gc

    from onnxruntime import OrtValue

    module = api.Module(MLP / "training_model.onnx", state)
    loss = module(*[OrtValue.ortvalue_from_numpy(array) for array in batch])
    expected = float(loss.numpy())
    native = loss._ortvalue
    module(*[OrtValue.ortvalue_from_numpy(array * 0) for array in batch])
    gc.collect()
    assert float(loss.numpy()) == float(native.numpy()) == expected


@stock
def test_stock_session_options_are_taken(state, batch):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    module = api.Module(MLP / "training_model.onnx", state, session_options=options)
    api.Optimizer(MLP / "optimizer_model.onnx", module)
    assert float(module(*batch)) == pytest.approx(2.2775516)
    options.add_session_config_entry("session.disable_prepacking", "0")
    with pytest.raises(RuntimeError, match="session.disable_prepacking"):
        api.Module(MLP / "training_model.onnx", state, session_options=options)


def test_own_session_options_are_taken(state):
    options = api.SessionOptions()
    options.intra_op_num_threads = 1
    api.Module(MLP / "training_model.onnx", state, session_options=options)
    with pytest.raises((AttributeError, TypeError)):
        api.Module(MLP / "training_model.onnx", state, session_options=3)
