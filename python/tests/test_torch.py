# SPDX-License-Identifier: Apache-2.0
"""Tensors and loaders of PyTorch."""
import numpy as np
import pytest

import strop
from conftest import DATA

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402
from small_models import model_of  # noqa: E402

MLP = DATA / "golden/mlp_ce_adamw/model.onnx"
TYPES = {
    torch.float64: TensorProto.DOUBLE, torch.float32: TensorProto.FLOAT, torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16, torch.bool: TensorProto.BOOL, torch.uint8: TensorProto.UINT8,
    torch.int8: TensorProto.INT8, torch.int16: TensorProto.INT16, torch.int32: TensorProto.INT32,
    torch.int64: TensorProto.INT64,
}


def load(golden):
    state = strop.CheckpointState.load_checkpoint(golden.path("checkpoint"))
    module = strop.Module(golden.path("training_model.onnx"), state, golden.path("eval_model.onnx"))
    return state, module


def as_double(kind, rank=2):
    """A model that gives its input, of a type, as float64."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)
    dims = [f"d{i}" for i in range(rank)]
    return strop.Function(model_of([node], [("x", dims, kind)], [("y", dims, TensorProto.DOUBLE)], opset=17))


def read(function, tensor):
    return function(tensor)[0]["y"]


def forms(values):
    """The same values as tensors that lie in memory in different ways, and whether they are contiguous."""
    wide = torch.zeros(values.shape[0], 2 * values.shape[1], dtype=values.dtype)
    wide[:, ::2] = values
    return {
        "contiguous": (values, True),
        "a part": (torch.cat([values, values])[values.shape[0]:], True),
        "transposed": (values.t().contiguous().t(), False),
        "every second": (wide[:, ::2], False),
        "flipped": (values.flip(0).flip(0), True),
    }


@pytest.fixture
def no_copies(monkeypatch):
    """What is not read in place goes through strop._arrays.contiguous, which now fails."""
    def refuse(_value, name):
        raise AssertionError(f"{name} was copied")

    monkeypatch.setattr("strop._arrays.contiguous", refuse)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_and_layout_keeps_its_values(dtype):
    values = (torch.arange(12).reshape(3, 4) % (2 if dtype is torch.bool else 7)).to(dtype)
    function = as_double(TYPES[dtype])
    wanted = values.to(torch.float64).numpy()
    for name, (tensor, _) in forms(values).items():
        np.testing.assert_array_equal(read(function, tensor), wanted, name)
    expanded = values[:1].expand(3, 4)
    np.testing.assert_array_equal(read(function, expanded), wanted[[0, 0, 0]])
    assert read(function, values[:0]).shape == (0, 4)
    assert read(as_double(TYPES[dtype], rank=0), values[0, 1]) == wanted[0, 1]


# Before PyTorch 2.1, DLPack has no bools.
@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype is not torch.bool], ids=str)
def test_contiguous_tensors_are_read_in_place(dtype, no_copies):
    function = as_double(TYPES[dtype])
    for tensor, contiguous in forms(torch.ones(3, 4, dtype=dtype)).values():
        if contiguous:
            read(function, tensor)
        else:
            with pytest.raises(AssertionError, match="x was copied"):
                read(function, tensor)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_tensors_that_need_a_gradient(dtype):
    values = torch.arange(12).reshape(3, 4).to(dtype)
    leaf = values.clone().requires_grad_()
    function = as_double(TYPES[dtype])
    for tensor in (leaf, leaf * 1, leaf.t(), torch.nn.Parameter(values)):
        np.testing.assert_array_equal(read(function, tensor), tensor.detach().to(torch.float64).numpy())
    assert leaf.requires_grad


@pytest.mark.parametrize("shape", [(3, 4), (1, 1)])  # the view of one number is contiguous
def test_views_that_hold_their_numbers_negated(shape):
    view = torch.imag(torch.complex(torch.zeros(shape), torch.ones(shape)).conj())
    assert view.is_neg()
    assert (read(as_double(TensorProto.FLOAT), view) == -1).all()


def test_tensors_of_another_kind_are_one_error():
    function = as_double(TensorProto.FLOAT)
    for tensor in (torch.ones(3, 4, dtype=torch.complex64), torch.ones(3, 4).to_sparse(),
                   torch.ones(3, 4, device="meta"), torch.quantize_per_tensor(torch.ones(3, 4), 1.0, 0, torch.qint8)):
        with pytest.raises(TypeError, match="x") as caught:
            read(function, tensor)
        assert isinstance(caught.value, strop.Error)
    with pytest.raises(TypeError, match="bfloat16"):
        read(function, torch.ones(3, 4, dtype=torch.bfloat16))


def test_a_step_gives_the_same_as_with_arrays(mlp):
    images, labels = mlp.batch(0, ["input", "labels"])
    wanted = load(mlp)[1](images, labels)
    assert load(mlp)[1](torch.from_numpy(images), torch.from_numpy(labels)) == wanted


def test_results_become_tensors(mlp, no_copies):
    state, module = load(mlp)
    batch = [torch.from_numpy(part) for part in mlp.batch(0, ["input", "labels"])]
    loss = module(*batch)
    assert torch.from_dlpack(loss).item() == float(loss)
    weight = state.parameters["fc1.weight"]
    shared, copy, gradient = map(torch.from_dlpack, (weight.view(), weight.data, weight.grad))
    assert gradient.abs().sum() > 0
    shared.mul_(2)
    np.testing.assert_array_equal(weight.data, 2 * copy.numpy())


def test_results_are_written_into_tensors(golden):
    _, module = load(golden("mse_regression"))
    batch = [torch.ones(7, 6), torch.zeros(7, 3)]
    loss, estimate = torch.zeros(()), torch.zeros(7, 3)
    wanted = module.eval()(*batch)
    module(*batch, out=[loss, estimate])
    assert loss.item() == float(wanted[0])
    np.testing.assert_array_equal(estimate.numpy(), wanted[1])
    with pytest.raises(ValueError, match="contiguous"):
        module(*batch, out=[loss, torch.zeros(3, 7).t()])


def test_parameters_and_flat_buffers_take_tensors(mlp):
    state, module = load(mlp)
    bias = state.parameters["fc1.bias"]
    values = torch.arange(64, dtype=torch.float32)
    bias.data = values
    np.testing.assert_array_equal(bias.data, values.numpy())
    bias.data = torch.nn.Parameter(values.flip(0))
    np.testing.assert_array_equal(bias.data, values.numpy()[::-1])
    with pytest.raises(TypeError, match="float64"):
        bias.data = values.double()
    flat = torch.from_dlpack(module.get_contiguous_parameters())
    module.copy_buffer_to_parameters(flat * 2)
    np.testing.assert_array_equal(bias.data, 2 * values.numpy()[::-1])


# --- strop.fit


def loader(images, labels, **options):
    data = torch.utils.data.TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    return torch.utils.data.DataLoader(data, batch_size=32, **options)


@pytest.fixture
def digits():
    random = np.random.default_rng(0)
    patterns = random.standard_normal((10, 784)).astype(np.float32)
    labels = random.integers(0, 10, 200)
    images = patterns[labels] + 0.5 * random.standard_normal((200, 784)).astype(np.float32)
    return images.astype(np.float32), labels


def fit(data, **options):
    return strop.fit(MLP, data, loss="cross_entropy", epochs=3, progress=False, **options)


def test_loaders_give_the_same_as_arrays(digits):
    training, held = [part[:150] for part in digits], [part[150:] for part in digits]
    with_loaders = fit(loader(*training), validation=loader(*held))
    with_arrays = fit(tuple(training), validation=tuple(held), shuffle=False)
    assert with_loaders.history == with_arrays.history
    assert set(with_loaders.history) == {"loss", "learning_rate", "val_loss", "val_accuracy"}
    assert with_loaders.best_epoch == with_arrays.best_epoch > 0
    np.testing.assert_array_equal(with_loaders.predict(torch.from_numpy(held[0])), with_arrays.predict(held[0]))


def test_a_shuffling_loader_is_asked_anew_each_epoch(digits):
    order = []

    class Noting(torch.utils.data.Dataset):
        def __len__(self):
            return len(digits[1])

        def __getitem__(self, i):
            order.append(i)
            return {"labels": digits[1][i], "input": digits[0][i]}

    generator = torch.Generator().manual_seed(3)
    data = torch.utils.data.DataLoader(Noting(), batch_size=50, shuffle=True, generator=generator)
    result = fit(data, warmup_steps=2, learning_rate=0.01)
    assert result.history["learning_rate"][-1] == 0
    epochs = [order[i:i + 200] for i in range(0, 600, 200)]
    assert all(sorted(epoch) == list(range(200)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_loader_with_workers(digits):
    assert fit(loader(*digits, num_workers=1)).history == fit(loader(*digits)).history


def test_a_fraction_of_a_loader_cannot_be_held_out(digits):
    with pytest.raises(ValueError, match="arrays"):
        fit(loader(*digits), validation=0.2)


def test_tensors_that_need_a_gradient_train_as_others_do(digits):
    images, labels = (torch.as_tensor(part) for part in digits)
    wanted = fit((images, labels), validation=0.2).history
    assert fit((images.clone().requires_grad_(), labels), validation=0.2).history == wanted
