# SPDX-License-Identifier: Apache-2.0
"""Module, Optimizer, LinearLRScheduler and CheckpointState on ONNX Runtime's artifacts."""
import concurrent.futures
import gc
import json
import os
import pathlib
import re
import sys
import threading
import time

import numpy as np
import pytest

import strop


def load(case, options=None, checkpoint="checkpoint"):
    state = strop.CheckpointState.load_checkpoint(case.path(checkpoint))
    module = strop.Module(case.path("training_model.onnx"), state, case.path("eval_model.onnx"),
                          session_options=options)
    optimizer = strop.Optimizer(case.path("optimizer_model.onnx"), module)
    return state, module, optimizer


def one_step(case):
    state, module, optimizer = load(case)
    loss = module(*case.batch(0, module.input_names()))
    return state, module, optimizer, loss


@pytest.mark.parametrize("name", ["mlp_ce_adamw", "lenet_ce_sgd", "lstm_last", "bert_tiny"])
def test_a_run_gives_onnx_runtimes_numbers(golden, name):
    case = golden(name)
    state, module, optimizer = load(case)
    schedule = case.recipe["schedule"]
    if schedule:
        scheduler = strop.LinearLRScheduler(optimizer, schedule["warmup"], schedule["total"],
                                            case.recipe["lr"])
    else:
        optimizer.set_learning_rate(case.recipe["lr"])
    losses = []
    for step in range(case.recipe["train_steps"]):
        result = module(*case.batch(step, module.input_names()))
        loss = result[0] if isinstance(result, tuple) else result
        losses.append(float(loss.reshape(())))
        optimizer.step()
        if schedule:
            scheduler.step()
        module.lazy_reset_grad()
    np.testing.assert_allclose(losses, case.expected["train_loss"].reshape(-1), rtol=2e-5)
    for key in case.expected.files:
        if key.startswith("param/"):
            wanted = case.expected[key]
            np.testing.assert_allclose(state.parameters[key[6:]].data, wanted,
                                       atol=1e-4 * max(np.abs(wanted).max(), 1e-3))
    module.eval()
    result = module(*case.eval_batch(module.input_names()))
    first = result[0] if isinstance(result, tuple) else result
    np.testing.assert_allclose(first, case.expected["eval_outputs_after/0"], rtol=1e-4, atol=1e-5)


def test_a_result_is_a_fresh_array(mlp):
    _, module, _ = load(mlp)
    batch = mlp.batch(0, module.input_names())
    first = module(*batch)
    kept = first.copy()
    module(*mlp.batch(1, module.input_names()))
    assert isinstance(first, np.ndarray)
    np.testing.assert_array_equal(first, kept)


def test_out_takes_the_results(mlp):
    _, module, _ = load(mlp)
    batch = mlp.batch(0, module.input_names())
    out = np.zeros_like(module(*batch))
    assert module(*batch, out=out) is out
    np.testing.assert_array_equal(out, module(*batch))
    with pytest.raises(TypeError, match="float64"):
        module(*batch, out=np.zeros_like(out, dtype=np.float64))
    with pytest.raises(ValueError):
        module(*batch, out=np.broadcast_to(np.zeros_like(out), out.shape))


def test_modes(mlp):
    _, module, _ = load(mlp)
    assert module.training
    assert module.eval() is module
    assert not module.training
    assert module.train() is module
    assert module.train(False) is module
    assert not module.training
    module.training = True
    assert module.input_names() == mlp.recipe["user_inputs"]


def test_gradients_are_copies_and_views(mlp):
    state, module, optimizer = load(mlp)
    parameter = state.parameters["fc1.weight"]
    assert not parameter.grad.any()
    module(*mlp.batch(0, module.input_names()))
    np.testing.assert_allclose(parameter.grad, mlp.expected["grad/fc1.weight"], atol=1e-6)
    before = parameter.grad
    view = parameter.grad_view()
    optimizer.step()
    module.lazy_reset_grad()
    module(*mlp.batch(1, module.input_names()))
    assert (before != parameter.grad).any()
    np.testing.assert_array_equal(view, parameter.grad)


def test_without_a_module_there_is_no_gradient(mlp):
    state = strop.CheckpointState.load_checkpoint(mlp.path("checkpoint"))
    assert state.parameters["fc1.weight"].grad is None


def test_data_is_a_copy_and_view_is_not(mlp):
    state, module, _ = load(mlp)
    parameter = state.parameters["fc1.bias"]
    data, view = parameter.data, parameter.view()
    view[0] = 42
    assert data[0] != 42
    assert parameter.data[0] == 42
    parameter.data = data
    assert view[0] == data[0]
    state.parameters["fc1.bias"] = np.full_like(data, 3)
    assert (view == 3).all()


def test_a_view_keeps_the_state_alive(mlp):
    view = strop.CheckpointState.load_checkpoint(mlp.path("checkpoint")).parameters["fc1.bias"].view()
    gc.collect()
    assert np.isfinite(view).all()


def test_parameters_are_a_mapping(mlp):
    state, _, _ = load(mlp)
    names = sorted(["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"])
    assert list(state.parameters) == names
    assert list(state.parameters.keys()) == names
    assert [p.name for p in state.parameters.values()] == names
    assert [name for name, _ in state.parameters.items()] == names
    assert len(state.parameters) == 4
    assert "fc1.bias" in state.parameters
    assert "nobody" not in state.parameters
    assert 3 not in state.parameters
    assert state.parameters.get("nobody") is None
    assert repr(state.parameters["fc1.bias"]) == "Parameter(name=fc1.bias, requires_grad=True)"
    with pytest.raises(KeyError, match="nobody"):
        state.parameters["nobody"]
    with pytest.raises(KeyError, match="nobody"):
        state.parameters["nobody"] = np.zeros(3, np.float32)


def test_properties_hold_three_types(mlp, tmp_path):
    state, _, _ = load(mlp)
    state.properties["epoch"] = 3
    state.properties["best"] = 0.5
    state.properties["note"] = "fine"
    state.properties["steps"] = np.int64(7)
    strop.CheckpointState.save_checkpoint(state, tmp_path / "c")
    properties = strop.CheckpointState.load_checkpoint(os.fspath(tmp_path / "c")).properties
    assert dict(properties.items()) == {"best": 0.5, "epoch": 3, "note": "fine", "steps": 7}
    with pytest.raises(TypeError):
        state.properties["list"] = [1]
    with pytest.raises(TypeError):
        state.properties["list"] = np.arange(3)
    for number in (2**63, -(2**63) - 1, 1e300, -1e300):
        with pytest.raises(ValueError, match=re.escape(str(number))):
            state.properties["large"] = number
    with pytest.raises(ValueError, match="surrogates"):
        state.properties["large"] = "\ud800"
    state.properties["large"] = float("inf")
    assert state.properties["large"] == float("inf")
    with pytest.raises(KeyError):
        properties["gone"]


@pytest.mark.skipif(os.name == "nt", reason="names are UTF-8 there")
def test_file_names_are_any_bytes_but_nul(mlp, tmp_path):
    state = strop.CheckpointState.load_checkpoint(mlp.path("checkpoint"))
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    strop.CheckpointState.save_checkpoint(state, name)
    assert os.listdir(os.fsencode(tmp_path)) == [b"caf\xe9"]
    assert len(strop.CheckpointState.load_checkpoint(name).parameters) == len(state.parameters)
    assert len(strop.CheckpointState.load_checkpoint(os.fsencode(name)).parameters) == len(state.parameters)
    with pytest.raises(ValueError, match="null"):
        strop.CheckpointState.load_checkpoint(mlp.path("checkpoint").as_posix() + "\0.old")


def test_a_resumed_run_goes_on_bit_by_bit(mlp, tmp_path):
    state, module, optimizer = load(mlp)
    names = module.input_names()
    for step in range(3):
        module(*mlp.batch(step, names))
        optimizer.step()
        module.lazy_reset_grad()
    strop.CheckpointState.save_checkpoint(state, tmp_path / "c", include_optimizer_state=True)
    resumed = strop.CheckpointState.load_checkpoint(tmp_path / "c")
    module2 = strop.Module(mlp.path("training_model.onnx"), resumed)
    optimizer2 = strop.Optimizer(mlp.path("optimizer_model.onnx"), module2)
    assert optimizer2.step_count == 3
    for m, o in ((module, optimizer), (module2, optimizer2)):
        m(*mlp.batch(3, names))
        o.step()
    np.testing.assert_array_equal(state.parameters["fc1.weight"].data, resumed.parameters["fc1.weight"].data)


def test_flat_buffers(mlp):
    state, module, _ = load(mlp)
    size = module.get_parameters_size()
    flat = module.get_contiguous_parameters(trainable_only=True)
    assert flat.shape == (size,) and flat.dtype == np.float32
    module.copy_buffer_to_parameters(flat * 2)
    np.testing.assert_array_equal(module.get_contiguous_parameters(), flat * 2)
    with pytest.raises(ValueError, match="elements"):
        module.copy_buffer_to_parameters(flat[:-1])
    with pytest.raises(TypeError, match="float64"):
        module.copy_buffer_to_parameters(flat.astype(np.float64))


def test_a_nominal_state_is_completed(golden):
    case = golden("nominal")
    state, module, optimizer = load(case, checkpoint="nominal_checkpoint")
    assert state.is_nominal
    assert "fc1.bias" in state.parameters
    with pytest.raises(strop.Error, match="nominal"):
        state.parameters["fc1.bias"]
    with pytest.raises(strop.Error):
        optimizer.step()
    assert optimizer.get_learning_rate() == pytest.approx(1e-3)
    full, filled, _ = load(case)
    module.copy_buffer_to_parameters(filled.get_contiguous_parameters(), trainable_only=False)
    assert not state.is_nominal
    np.testing.assert_array_equal(state.parameters["fc2.weight"].data, full.parameters["fc2.weight"].data)


def test_export(mlp, tmp_path):
    _, module, _ = load(mlp)
    module.export_model_for_inferencing(tmp_path / "m.onnx", ["logits"])
    assert (tmp_path / "m.onnx").stat().st_size > 1000
    with pytest.raises(KeyError, match="nobody"):
        module.export_model_for_inferencing(tmp_path / "n.onnx", ["nobody"])
    assert not (tmp_path / "n.onnx").exists()


def test_models_as_bytes(mlp):
    state = strop.CheckpointState.load_from_bytes(mlp.path("checkpoint").read_bytes())
    module = strop.Module(mlp.path("training_model.onnx").read_bytes(), state)
    _, other, _ = load(mlp)
    batch = mlp.batch(0, module.input_names())
    assert module(*batch) == other(*batch)


def test_session_options(mlp):
    options = strop.SessionOptions()
    options.intra_op_num_threads = 1
    options.memory_limit_bytes = 1000
    options.add_session_config_entry("session.disable_prepacking", "1")
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    _, module, _ = load(mlp, options)
    with pytest.raises(MemoryError):
        module(*mlp.batch(0, module.input_names()))
    options.memory_limit_bytes = 0
    options.non_finite = "error"
    _, module, _ = load(mlp, options)
    images, labels = mlp.batch(0, module.input_names())
    with pytest.raises(ArithmeticError):
        module(np.full_like(images, np.nan), labels)
    with pytest.raises(ValueError, match="sometimes"):
        options.non_finite = "sometimes"
    with pytest.raises(TypeError):
        load(mlp, options="two threads")


def test_profile(mlp, tmp_path):
    options = strop.SessionOptions()
    options.enable_profiling = True
    _, module, _ = load(mlp, options)
    module(*mlp.batch(0, module.input_names()))
    module.write_profile(tmp_path / "p.json")
    events = json.loads((tmp_path / "p.json").read_text())
    assert any("Gemm" in event["name"] for event in events)


class TestErrors:
    def test_a_missing_file(self, mlp):
        with pytest.raises(FileNotFoundError, match="no_such") as caught:
            strop.CheckpointState.load_checkpoint("no_such")
        assert isinstance(caught.value, strop.Error)
        assert isinstance(caught.value, RuntimeError)
        state, _, _ = load(mlp)
        with pytest.raises(FileNotFoundError):
            strop.Module("no_such.onnx", state)

    def test_a_damaged_file(self, mlp, tmp_path):
        path = tmp_path / "c"
        path.write_bytes(mlp.path("checkpoint").read_bytes()[:100])
        with pytest.raises(ValueError, match="c"):
            strop.CheckpointState.load_checkpoint(path)

    def test_another_element_type(self, mlp):
        state, module, _ = load(mlp)
        images, labels = mlp.batch(0, module.input_names())
        with pytest.raises(TypeError, match="float64"):
            module(images.astype(np.float64), labels)
        with pytest.raises(TypeError, match="int32"):
            module(images, labels.astype(np.int32))
        with pytest.raises(TypeError):
            state.parameters["fc1.bias"].data = np.zeros(64)

    def test_another_shape_or_count(self, mlp):
        state, module, _ = load(mlp)
        images, labels = mlp.batch(0, module.input_names())
        with pytest.raises(ValueError, match="784"):
            module(images[:, :700], labels)
        with pytest.raises(ValueError):
            module(images)
        with pytest.raises(ValueError):
            module(images, labels, labels)
        with pytest.raises(ValueError):
            state.parameters["fc1.bias"].data = np.zeros(63, np.float32)

    def test_what_is_no_array(self, mlp):
        _, module, _ = load(mlp)
        images, labels = mlp.batch(0, module.input_names())
        for wrong in (None, "text", object(), {"a": 1}, images.astype(object), labels.astype("U8")):
            with pytest.raises(TypeError, match="labels"):
                module(images, wrong)

    def test_exchanged_counts_of_a_schedule(self, mlp):
        _, _, optimizer = load(mlp)
        with pytest.warns(UserWarning, match="warmup comes first"):
            strop.LinearLRScheduler(optimizer, 9, 3, 1.0)

    def test_objects_of_another_kind(self, mlp):
        state, module, _ = load(mlp)
        with pytest.raises(TypeError):
            strop.Module(mlp.path("training_model.onnx"), "checkpoint")
        with pytest.raises(TypeError):
            strop.Optimizer(mlp.path("optimizer_model.onnx"), state)
        with pytest.raises(TypeError, match="an Optimizer is wanted"):
            strop.LinearLRScheduler(module, 1, 2, 0.1)
        with pytest.raises(TypeError):
            strop.CheckpointState.load_checkpoint(3)
        with pytest.raises(ValueError, match="cuda"):
            strop.Module(mlp.path("training_model.onnx"), state, device="cuda")

    def test_no_eval_model(self, mlp):
        state = strop.CheckpointState.load_checkpoint(mlp.path("checkpoint"))
        module = strop.Module(mlp.path("training_model.onnx"), state).eval()
        assert module.input_names() == []
        with pytest.raises(strop.Error, match="eval"):
            module(np.zeros((1, 784), np.float32))


class TestArrays:
    def losses(self, mlp, images, labels):
        _, module, _ = load(mlp)
        return module(images, labels)

    def test_strides_and_byte_orders_keep_the_values(self, mlp):
        images, labels = mlp.batch(0, ["input", "labels"])
        wanted = self.losses(mlp, images, labels)
        wide = np.zeros((images.shape[0], 2 * images.shape[1]), np.float32)
        wide[:, ::2] = images
        for other in (np.asfortranarray(images), wide[:, ::2], images[::-1].copy()[::-1], images.astype(">f4")):
            assert self.losses(mlp, other, labels) == wanted
        assert self.losses(mlp, images, labels.astype(">i8")) == wanted
        assert self.losses(mlp, images, list(map(int, labels))) == wanted
        read_only = images.copy()
        read_only.flags.writeable = False
        assert self.losses(mlp, read_only, labels) == wanted


def test_the_program_comes_with_the_package(mlp, tmp_path):
    import subprocess
    import sys
    done = subprocess.run([sys.executable, "-m", "strop", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == strop.__version__
    done = subprocess.run([sys.executable, "-m", "strop", "inspect", str(mlp.path("training_model.onnx"))],
                          capture_output=True, text=True, check=True)
    assert "Gemm" in done.stdout
    done = subprocess.run([sys.executable, "-m", "strop", "dance"], capture_output=True, text=True)
    assert done.returncode == 2 and "dance" in done.stderr
    assert pathlib.Path(strop.__file__).with_name("py.typed").exists()


def in_threads(work, count=4):
    """Runs work(0), work(1), ... at the same time; raises what one of them raised."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_other_threads_run_during_a_step(mlp, mode):
    _, module, _ = load(mlp)
    getattr(module, mode)()
    images, labels = (np.tile(part, (1000,) + (1,) * (part.ndim - 1)) for part in mlp.batch(0, module.input_names()))
    turns, during, ended = 0, [], threading.Event()

    def step():
        before = turns
        module(images, labels)
        during.append(turns - before)
        ended.set()

    # From now on a thread gives the interpreter up by itself or not at all.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=step)
        thread.start()
        while not ended.is_set():
            turns += 1
            time.sleep(0)
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert during[0] > 0


def test_threads_may_share_a_module(mlp):
    state, module, optimizer = load(mlp)
    images, labels = mlp.batch(0, module.input_names())
    gradient = state.parameters["fc1.weight"].grad_view()
    module(images, labels)
    once = gradient.copy()

    def steps(_):
        for _ in range(50):
            module(images, labels)

    in_threads(steps)  # gradients add up
    np.testing.assert_allclose(gradient, 201 * once, rtol=1e-3, atol=1e-4)

    def steps_of_a_size(thread):
        for _ in range(100):
            assert np.isfinite(module(images[thread:], labels[thread:]))
            optimizer.step()
            module.lazy_reset_grad()

    in_threads(steps_of_a_size)
    assert optimizer.step_count == 400


def test_threads_may_share_a_function(mlp):
    function = strop.Function(mlp.path("model.onnx"), wrt=["input"])

    def calls(thread):
        for _ in range(300):
            outputs, gradients = function(np.ones((1 + thread, 784), np.float32))
            assert len(outputs["logits"]) == len(gradients["input"]) == 1 + thread

    in_threads(calls)


@pytest.mark.filterwarnings("ignore:nanobind")
def test_objects_that_were_not_initialized_are_refused(mlp):
    class Forgetful(strop.Module):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match="a Module is wanted"):
        strop.Optimizer(mlp.path("optimizer_model.onnx"), Forgetful())
    with pytest.raises(TypeError):
        Forgetful().eval()
    state = strop.CheckpointState.__new__(strop.CheckpointState)
    with pytest.raises(TypeError, match="a CheckpointState is wanted"):
        strop.Module(mlp.path("training_model.onnx"), state)
    with pytest.raises(TypeError):
        state.parameters
    with pytest.raises(TypeError):
        state.properties


def test_a_subclass_stays_itself_in_both_modes(mlp):
    class Mine(strop.Module):
        pass

    state = strop.CheckpointState.load_checkpoint(mlp.path("checkpoint"))
    module = Mine(mlp.path("training_model.onnx"), state)
    assert module.eval() is module and not module.training
    assert module.train() is module and module.training
