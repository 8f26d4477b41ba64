# SPDX-License-Identifier: Apache-2.0
import gc
import signal
import sys
import tempfile
import threading
import types

import numpy as np
import pytest

import strop
from conftest import DATA

MLP = DATA / "golden/mlp_ce_adamw/model.onnx"
TABULAR = DATA / "golden/mse_regression/model.onnx"


@pytest.fixture
def digits():
    """Separable classes: each has its own pattern."""
    random = np.random.default_rng(0)
    patterns = random.standard_normal((10, 784)).astype(np.float32)
    labels = random.integers(0, 10, 200)
    images = patterns[labels] + 0.5 * random.standard_normal((200, 784)).astype(np.float32)
    return images.astype(np.float32), labels


def test_a_bare_model_learns(digits):
    result = strop.fit(MLP, digits, loss="cross_entropy", validation=0.25, epochs=8, progress=False)
    history = result.history
    assert history["loss"][-1] < 0.3 * history["loss"][0]
    assert history["val_accuracy"][-1] > 0.9
    assert set(history) == {"loss", "learning_rate", "val_loss", "val_accuracy"}
    assert all(len(values) == 8 for values in history.values())
    assert result.stopped == "epochs"
    assert result.best_epoch == 1 + int(np.argmin(history["val_loss"]))
    scores = result.predict(digits[0])
    assert scores.shape == (200, 10)
    assert (scores.argmax(1) == digits[1]).mean() > 0.9


def test_the_same_seed_gives_the_same_run(digits):
    def losses(**options):
        return strop.fit(MLP, digits, loss="cross_entropy", epochs=2, progress=False, **options).history["loss"]

    assert losses(seed=1) == losses(seed=1)
    assert losses(seed=1) != losses(seed=2)
    assert losses(shuffle=False, seed=1) == losses(shuffle=False, seed=2)


def test_it_equals_a_loop_written_by_hand(digits, tmp_path):
    from strop import _core

    settings = _core.ArtifactOptions()
    made = _core.Loss()
    made.kind = _core.LossKind.CROSS_ENTROPY
    settings.losses = [made]
    _core.generate_artifacts(MLP, settings, tmp_path)
    state = strop.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = strop.Module(tmp_path / "training_model.onnx", state, tmp_path / "eval_model.onnx")
    optimizer = strop.Optimizer(tmp_path / "optimizer_model.onnx", module)
    for begin in range(0, 200, 32):
        module(*(part[begin:begin + 32] for part in digits))
        optimizer.step()
        module.lazy_reset_grad()
    result = strop.fit(MLP, digits, loss="cross_entropy", shuffle=False, progress=False)
    np.testing.assert_array_equal(result.state.parameters["fc1.weight"].data, state.parameters["fc1.weight"].data)


def test_dicts_batches_and_loaders(digits):
    images, labels = digits
    named = {"labels": labels, "input": images}
    batches = [(images[i:i + 32], labels[i:i + 32]) for i in range(0, 200, 32)]
    losses = {
        strop.fit(MLP, data, loss="cross_entropy", shuffle=False, epochs=2, progress=False).history["loss"][-1]
        for data in (digits, named, batches, [{"input": x, "labels": y} for x, y in batches])
    }
    assert len(losses) == 1


def test_an_iterator_is_good_for_one_epoch_and_refused_before_the_first_step(digits):
    seen = []

    def batches():
        for i in range(0, 200, 50):
            seen.append(i)
            yield tuple(part[i:i + 50] for part in digits)

    strop.fit(MLP, batches(), loss="cross_entropy", validation=batches(), progress=False)
    seen.clear()
    for arguments in (dict(data=batches()), dict(data=digits, validation=batches())):
        with pytest.raises(ValueError, match=f"{list(arguments)[-1]}: .* iterated again"):
            strop.fit(MLP, loss="cross_entropy", epochs=2, progress=False, **arguments)
    assert seen == []


def test_predictions_follow_further_training(digits):
    result = strop.fit(MLP, digits, loss="cross_entropy", progress=False)
    before = result.predict(digits[0])
    result.module.train()(*digits)
    result.optimizer.step()
    assert (result.predict(digits[0]) != before).any()


def test_nothing_is_left_behind_and_nothing_is_warned_of(digits, tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = strop.fit(MLP, digits, loss="cross_entropy", progress=False)
    assert len(list(tmp_path.iterdir())) == 1
    del result
    gc.collect()
    assert list(tmp_path.iterdir()) == [] and recwarn.list == []


def test_a_notebook_gets_a_bar(digits, monkeypatch, capsys):
    pytest.importorskip("tqdm")
    strop.fit(MLP, digits, loss="cross_entropy")
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    strop.fit(MLP, digits, loss="cross_entropy")
    assert "epoch 1/1" in capsys.readouterr().err


def test_regression_trains_the_named_parameters_alone():
    random = np.random.default_rng(3)
    x = random.standard_normal((64, 6)).astype(np.float32)
    y = np.tanh(x[:, :3])
    result = strop.fit(TABULAR, (x, y), loss="mse", train=["fc2.*"], epochs=3, learning_rate=0.01, optimizer="sgd",
                       progress=False)
    assert [p.name for p in result.state.parameters.values() if p.requires_grad] == ["fc2.bias", "fc2.weight"]
    assert result.history["loss"][-1] < result.history["loss"][0]


def test_a_schedule_warms_up_and_ends_at_zero(digits):
    result = strop.fit(MLP, digits, loss="cross_entropy", epochs=2, warmup_steps=3, learning_rate=0.01,
                       progress=False)
    assert result.history["learning_rate"][-1] == 0
    assert 0 < result.history["learning_rate"][0] < 0.01


def test_a_schedule_begins_anew_where_training_goes_on(digits, tmp_path):
    first = strop.fit(MLP, digits, loss="cross_entropy", epochs=2, progress=False)
    first.save(tmp_path / "artifacts")
    options = dict(epochs=2, warmup_steps=3, learning_rate=0.01, progress=False)
    anew = strop.fit(MLP, digits, loss="cross_entropy", **options)
    again = strop.fit(tmp_path / "artifacts", digits, **options)
    assert again.history["learning_rate"] == anew.history["learning_rate"]
    assert again.history["loss"][1] < first.history["loss"][1]


def test_early_stopping_keeps_the_best_epoch(digits):
    images, labels = digits
    noise = np.random.default_rng(1).permutation(labels)
    result = strop.fit(MLP, (images, labels), loss="cross_entropy", validation=(images, noise), epochs=50,
                       early_stopping=2, progress=False)
    assert result.stopped == "early_stopping"
    best = int(np.argmin(result.history["val_loss"]))
    assert result.best_epoch == best + 1 == len(result.history["loss"]) - 2
    module = result.module.eval()
    loss = np.mean([float(module(images[i:i + 100], noise[i:i + 100])[0]) for i in (0, 100)])
    assert loss == pytest.approx(result.history["val_loss"][best], rel=1e-5)


def test_callbacks_see_each_epoch_and_may_stop(digits):
    seen = []

    def stop_at_two(epoch):
        seen.append((epoch.number, sorted(epoch.metrics)))
        return epoch.number == 2

    result = strop.fit(MLP, digits, loss="cross_entropy", epochs=5, callbacks=[stop_at_two], progress=False)
    assert result.stopped == "callback"
    assert seen == [(1, ["learning_rate", "loss"]), (2, ["learning_rate", "loss"])]


def test_an_interrupt_ends_the_training_and_not_the_program(digits):
    def interrupt(_):
        signal.raise_signal(signal.SIGINT)

    # In the background, a shell starts programs with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = strop.fit(MLP, digits, loss="cross_entropy", epochs=5, callbacks=[interrupt], progress=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stopped == "interrupted"
    assert len(result.history["loss"]) == 1


def test_save_and_go_on_from_the_artifacts(digits, tmp_path):
    first = strop.fit(MLP, digits, loss="cross_entropy", epochs=2, progress=False)
    first.save(tmp_path / "artifacts")
    again = strop.fit(tmp_path / "artifacts", digits, epochs=1, progress=False)
    assert again.history["loss"][0] < first.history["loss"][0]
    assert again.optimizer.step_count == 3 * 7
    assert again.outputs == ["logits"]
    assert again.predict(digits[0]).shape == (len(digits[0]), 10)
    (tmp_path / "artifacts/checkpoints").mkdir()
    assert strop.fit(tmp_path / "artifacts", digits, progress=False).optimizer.step_count == 3 * 7
    with pytest.raises(FileNotFoundError, match=f"{tmp_path.name} .* no training_model.onnx"):
        strop.fit(tmp_path, digits)
    with pytest.raises(ValueError, match="bring their loss"):
        strop.fit(tmp_path / "artifacts", digits, loss="mse")
    with pytest.raises(ValueError, match="bring their optimizer"):
        strop.fit(tmp_path / "artifacts", digits, weight_decay=0.1)


def test_export(digits, tmp_path):
    result = strop.fit(MLP, digits, loss="cross_entropy", progress=False)
    result.export(tmp_path / "tuned.onnx")
    outputs, _ = strop.Function(tmp_path / "tuned.onnx")(digits[0])
    np.testing.assert_array_equal(outputs["logits"], result.predict(digits[0]))


def test_plot(digits, tmp_path):
    pytest.importorskip("matplotlib")
    result = strop.fit(MLP, digits, loss="cross_entropy", validation=0.2, epochs=2, progress=False)
    result.plot(tmp_path / "losses.png")
    assert (tmp_path / "losses.png").stat().st_size > 1000
    result.history.clear()  # as of a run that was interrupted in its first epoch
    assert result.plot().axes[0].lines[:] == []


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (dict(loss="hinge"), ValueError, "hinge"),
        (dict(optimizer="lion"), ValueError, "lion"),
        (dict(epochs=0), ValueError, "epochs"),
        (dict(epochs=1.5), ValueError, "epochs is a whole number .* 1.5"),
        (dict(batch_size="8"), ValueError, "batch_size"),
        (dict(warmup_steps=-1), ValueError, "warmup_steps"),
        (dict(learning_rate="fast"), ValueError, "learning_rate .* 'fast'"),
        (dict(learning_rate=float("nan")), ValueError, "learning_rate"),
        (dict(callbacks=print), ValueError, "callbacks is a list"),
        (dict(train=["nobody"]), KeyError, "nobody"),
        (dict(validation=1.0), ValueError, "empty"),
        (dict(validation=1), TypeError, "validation: .* got int"),
        (dict(validation=np.float32(1)), ValueError, "empty"),
        (dict(early_stopping=0), ValueError, "early_stopping"),
        (dict(data=(np.zeros((4, 784), np.float32),)), ValueError, "2 arrays"),
        (dict(data=(np.zeros((4, 784), np.float32), np.zeros(5, np.int64))), ValueError, "one length"),
        (dict(data=(np.zeros((4, 784)), np.zeros(4, np.int64))), TypeError, "float64"),
        (dict(data={"input": np.zeros((4, 784), np.float32)}), KeyError, "labels"),
        (dict(data="images.npz"), TypeError, "str"),
        (dict(data=[]), ValueError, "no batch"),
        (dict(model="no_such.onnx"), FileNotFoundError, "no_such"),
    ],
)
def test_errors(digits, change, error, text):
    arguments = dict(model=MLP, data=digits, loss="cross_entropy", progress=False) | change
    model, data = arguments.pop("model"), arguments.pop("data")
    with pytest.raises(error, match=text):
        strop.fit(model, data, **arguments)


def test_two_runs_at_a_time_give_the_same(digits):
    results = {}

    def run(name):
        results[name] = strop.fit(MLP, digits, loss="cross_entropy", epochs=2, progress=False).history["loss"]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results[0] == results[1]
