# SPDX-License-Identifier: Apache-2.0
"""strop.artifacts: what the four files hold, by the lines of a feature list (A1 to A26)."""
import inspect
import logging
import os
import pathlib

import numpy as np
import pytest

import strop
from strop import _generated_names, artifacts

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from small_models import ALL, FLOAT, INT64, mlp, model_of, names, tensor, two_heads  # noqa: E402

from strop import onnxblock  # noqa: E402

ADAMW, SGD = artifacts.OptimType.AdamW, artifacts.OptimType.SGD
MSE, CE = artifacts.LossType.MSELoss, artifacts.LossType.CrossEntropyLoss


@pytest.fixture(autouse=True)
def fresh_names():
    """Generated names are numbered as in a fresh process."""
    _generated_names.set_names_used(0)


class Case:
    """A folder of artifacts, each read when it is asked for."""

    def __init__(self, folder, prefix=""):
        self.folder, self.prefix = pathlib.Path(folder), prefix

    def path(self, name):
        return self.folder / (self.prefix + name)

    def model(self, kind):
        return onnx.load(self.path(f"{kind}_model.onnx"))

    def files(self):
        return sorted(os.listdir(self.folder))

    def state(self, name="checkpoint"):
        return strop.CheckpointState.load_checkpoint(self.path(name))

    def session(self):
        state = self.state()
        module = strop.Module(self.path("training_model.onnx"), state, self.path("eval_model.onnx"))
        return state, module, strop.Optimizer(self.path("optimizer_model.onnx"), module)


def generate(folder, model=None, requires_grad=ALL, loss=CE, optimizer=ADAMW, **options):
    artifacts.generate_artifacts(mlp() if model is None else model, requires_grad=requires_grad, loss=loss,
                                 optimizer=optimizer, artifact_directory=folder, **options)
    return Case(os.fsdecode(folder or "."), options.get("prefix", ""))


class Both(onnxblock.Block):
    """The sum of the squares of two outputs' differences; no call of the base constructor."""

    def __init__(self):
        self.mse = onnxblock.loss.MSELoss()
        self.add = onnxblock.blocks.Add()

    def build(self, first, second):
        parts = self.mse(first, target_name="one"), self.mse(second, target_name="two")
        return self.add(*parts), *parts


# --- Against ONNX Runtime's own artifacts

class TwoLosses(onnxblock.blocks.Block):
    def __init__(self):
        super().__init__()
        self.mse, self.ce = onnxblock.loss.MSELoss(), onnxblock.loss.CrossEntropyLoss()
        self.a, self.b = onnxblock.blocks.Constant(0.4), onnxblock.blocks.Constant(0.6)
        self.mul, self.add = onnxblock.blocks.Mul(), onnxblock.blocks.Add()

    def build(self, boxes, kinds, scores):
        first, second = self.mse(boxes, target_name="box_target"), self.ce(kinds, labels_name="kind_labels")
        total = self.add(self.mul(self.a(), first), self.mul(self.b(), second))
        return total, first, second


def clipped_adamw():
    optim = onnxblock.optim
    return optim.AdamW(betas=(0.8, 0.99), eps=1e-5, weight_decay=0.05, clip_grad=optim.ClipGradNorm(0.5))


GOLDENS = ["mlp_ce_adamw", "lenet_ce_sgd", "bert_tiny", "lstm_last", "gru_last", "mse_regression", "l1_regression",
           "bce_multilabel", "clip_grad_norm", "custom_loss", "nominal", "mobilenet_block_frozen", "resnet8_bn",
           "exported_lstm", "kitchen_sink_opset17"]


def generate_as_recorded(golden, folder, by_block=False):
    made = golden.recipe["generate_artifacts"]
    loss, optimizer = made["loss"], made["optimizer"]
    if golden.recipe["case"] == "custom_loss":
        loss = TwoLosses()
    else:
        loss = getattr(onnxblock.loss, loss)() if by_block else artifacts.LossType[loss]
    optimizer = artifacts.OptimType[optimizer] if optimizer in ("AdamW", "SGD") else clipped_adamw()
    artifacts.generate_artifacts(
        golden.path("model.onnx"), made["requires_grad"], made["frozen_params"], loss, optimizer, folder,
        additional_output_names=made["additional_output_names"], nominal_checkpoint=made["nominal_checkpoint"])
    return Case(folder)


@pytest.mark.parametrize("by_block", [False, True])
@pytest.mark.parametrize("name", GOLDENS)
def test_A12_goldens_have_the_same_names_and_losses(golden, tmp_path, name, by_block):
    recorded = golden(name)
    case = generate_as_recorded(recorded, tmp_path, by_block)
    for kind in ("training", "eval", "optimizer"):
        ours, theirs = case.model(kind), onnx.load(recorded.path(f"{kind}_model.onnx"))
        assert names(ours.graph.input) == names(theirs.graph.input)
        assert names(ours.graph.output) == names(theirs.graph.output)
    state, module, optimizer = case.session()
    theirs = strop.CheckpointState.load_checkpoint(recorded.path("checkpoint"))
    assert sorted(state.parameters) == sorted(theirs.parameters)
    schedule = recorded.recipe["schedule"]
    optimizer.set_learning_rate(recorded.recipe["lr"])
    if schedule:
        scheduler = strop.LinearLRScheduler(optimizer, schedule["warmup"], schedule["total"], recorded.recipe["lr"])
    losses = []
    for step in range(6):
        result = module(*recorded.batch(step, module.input_names()))
        losses.append(float(np.reshape(result[0] if isinstance(result, tuple) else result, ())))
        optimizer.step()
        if schedule:
            scheduler.step()
        module.lazy_reset_grad()
    np.testing.assert_allclose(losses, recorded.expected["train_loss"].reshape(-1)[:6], rtol=2e-5)


# --- A1 to A7: arguments

def test_A1_the_signature_is_that_of_1_19(tmp_path):
    parameters = inspect.signature(artifacts.generate_artifacts).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["model", "requires_grad", "frozen_params", "loss", "optimizer", "artifact_directory",
                          "prefix", "ort_format", "custom_op_library", "additional_output_names",
                          "nominal_checkpoint", "loss_input_names"]
    result = artifacts.generate_artifacts(mlp(), ALL, [], CE, ADAMW, tmp_path, "p_", False, None, ["h"], True,
                                          ["output"])
    assert result is None
    assert Case(tmp_path).files() == ["p_checkpoint", "p_eval_model.onnx", "p_nominal_checkpoint",
                                      "p_optimizer_model.onnx", "p_training_model.onnx"]


def test_A1_unknown_keywords_are_refused(tmp_path):
    with pytest.raises(TypeError, match="do_constant_folding"):
        generate(tmp_path, do_constant_folding=False)


@pytest.mark.parametrize("folder", [str, os.fsencode, pathlib.Path])
def test_A1_the_folder_may_be_str_bytes_or_path_and_is_made(tmp_path, folder):
    generate(folder(tmp_path / "new" / "one"))
    assert (tmp_path / "new/one/checkpoint").exists()


def test_A1_the_folder_is_the_working_directory_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generate(None)
    assert "checkpoint" in os.listdir(tmp_path)


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A2_the_model_is_left_as_it_is(tmp_path, loss):
    model = mlp()
    before = model.SerializeToString(deterministic=True)
    generate(tmp_path, model, loss=loss)
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
@pytest.mark.parametrize("source", [lambda path: onnx.load(path), str, pathlib.Path])
def test_A3_the_model_may_be_a_proto_or_a_path(tmp_path, source, loss):
    onnx.save(mlp(), tmp_path / "model.onnx")
    case = generate(tmp_path / "out", source(tmp_path / "model.onnx"), loss=loss)
    assert names(case.model("training").graph.input)[:2] == ["input", "labels"]


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A3_something_else_is_no_model(tmp_path, loss):
    with pytest.raises(RuntimeError, match="a model is an onnx.ModelProto or a path, got list"):
        generate(tmp_path, [], loss=loss)
    with pytest.raises(FileNotFoundError):
        generate(tmp_path, str(tmp_path / "nothing.onnx"), loss=loss)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A3_a_path_may_have_external_data(tmp_path, loss):
    onnx.save(mlp(), tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    case = generate(tmp_path / "out", tmp_path / "model.onnx", loss=loss)
    state, module, _ = case.session()
    np.testing.assert_array_equal(state.parameters["fc1.weight"].data,
                                  onnx.numpy_helper.to_array(mlp().graph.initializer[0]))
    assert not (tmp_path / "out/training_model.onnx.data").exists()


def test_A4_four_files_with_prefix_which_replace_older_ones(tmp_path):
    wanted = ["x-checkpoint", "x-eval_model.onnx", "x-optimizer_model.onnx", "x-training_model.onnx"]
    for name in wanted:
        (tmp_path / name).write_bytes(b"old")
    case = generate(tmp_path, prefix="x-")
    assert case.files() == wanted
    assert all(case.folder.joinpath(name).read_bytes() != b"old" for name in wanted)
    case.session()


def test_A4_without_an_optimizer_there_is_no_model_of_one(tmp_path):
    assert generate(tmp_path, optimizer=None).files() == ["checkpoint", "eval_model.onnx", "training_model.onnx"]


BAD = {
    "in both lists": (dict(frozen_params=["fc1.bias", "fc2.bias"]), ValueError, "fc1.bias, fc2.bias"),
    "loss of another type": (dict(loss="mse"), TypeError, "LossType.*got str"),
    "a class as loss": (dict(loss=onnxblock.loss.MSELoss), TypeError, "the class MSELoss"),
    "an optimizer as loss": (dict(loss=ADAMW), TypeError, "got OptimType"),
    "optimizer of another type": (dict(optimizer="adam"), TypeError, "OptimType.*got str"),
    "additional outputs in a tuple": (dict(additional_output_names=("h",)), TypeError, "got tuple"),
    "additional outputs as text": (dict(additional_output_names="h"), TypeError, "got str"),
    "one name instead of a list": (dict(requires_grad="fc1.bias"), TypeError, "got str"),
    "unknown additional output": (dict(additional_output_names=["nothing"]), LookupError, "nothing"),
    "unknown trainable name": (dict(requires_grad=["fc1.wieght"]), LookupError, "fc1.weight"),
    "unknown loss input": (dict(loss_input_names=["nothing"]), LookupError, "nothing"),
}


@pytest.mark.parametrize("what", BAD)
def test_A5_wrong_arguments_are_told(tmp_path, what):
    options, kind, text = BAD[what]
    with pytest.raises(strop.Error, match=text) as caught:
        generate(tmp_path, **options)
    assert isinstance(caught.value, kind) and isinstance(caught.value, RuntimeError)
    assert os.listdir(tmp_path) == []


def test_A5_no_additional_outputs_may_be_an_empty_list(tmp_path):
    assert len(generate(tmp_path, additional_output_names=[]).model("eval").graph.output) == 1


class Failing(onnxblock.Block):
    def build(self, *_):
        raise RuntimeError("failed on purpose")


@pytest.mark.parametrize("options", [dict(optimizer="adam"), dict(optimizer=Failing()), dict(loss=Failing())])
def test_A6_a_failure_writes_nothing(tmp_path, options):
    with pytest.raises(RuntimeError):
        generate(tmp_path, **options)
    assert os.listdir(tmp_path) == []


def test_A6_arguments_come_before_the_model(tmp_path):
    with pytest.raises(TypeError, match="loss must be"):
        generate(tmp_path, model=object(), loss=3, frozen_params=ALL)
    for names in ("requires_grad", "frozen_params", "loss_input_names", "additional_output_names"):
        with pytest.raises(TypeError, match=f"{names} must be a list of str, got 3 in it"):
            generate(tmp_path, model=object(), **{names: ["a", 3]})
    with pytest.raises(ValueError, match="trained and frozen"):
        generate(tmp_path, model=object(), frozen_params=ALL)


def with_loss():
    """Outputs a loss and then the scores."""
    model = mlp()
    model.graph.node.append(helper.make_node("ReduceMean", ["output"], ["loss"], "mean", keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("loss", FLOAT, []))
    model.graph.output.append(helper.make_tensor_value_info("output", FLOAT, ["batch", 3]))
    return model


@pytest.mark.parametrize("optimizer", [ADAMW, onnxblock.optim.AdamW()])
def test_A7_without_a_loss_the_first_output_is_it(tmp_path, optimizer):
    case = generate(tmp_path, with_loss(), loss=None, optimizer=optimizer)
    assert names(case.model("eval").graph.output) == ["loss", "output"]
    assert names(case.model("training").graph.output)[:3] == ["loss", "output", "fc1.weight_grad.accumulation.out"]
    state, module, _ = case.session()
    module(np.ones((2, 4), np.float32))
    np.testing.assert_allclose(state.parameters["fc2.bias"].grad, np.full(3, 1 / 3), rtol=1e-6)


def test_A7_additional_outputs_come_after_the_models_own(tmp_path):
    case = generate(tmp_path, with_loss(), loss=None, additional_output_names=["h"])
    assert names(case.model("eval").graph.output) == ["loss", "output", "h"]


def test_A7_a_first_output_that_is_no_loss_is_refused(tmp_path):
    with pytest.raises(ValueError, match='"output" has rank 2'):
        generate(tmp_path, loss=None)


# --- A8 to A11: losses and outputs

@pytest.mark.parametrize("by_block", [False, True])
@pytest.mark.parametrize("loss", artifacts.LossType)
def test_A8_losses_by_name_have_a_target(tmp_path, loss, by_block):
    optimizer = onnxblock.optim.SGD() if by_block else SGD
    case = generate(tmp_path, loss=loss, optimizer=optimizer)
    target = case.model("training").graph.input[1]
    wanted = ("labels", INT64, ["batch"]) if loss is CE else ("target", FLOAT, ["batch", 3])
    dims = [dim.dim_param or dim.dim_value for dim in target.type.tensor_type.shape.dim]
    assert (target.name, target.type.tensor_type.elem_type, dims) == wanted
    numbers = {"CrossEntropyLoss": 2, "MSELoss": 6, "L1Loss": 5, "BCEWithLogitsLoss": 23}
    name = case.model("eval").graph.output[0].name
    assert name == f"onnx::{'loss' if loss is CE else 'reducemean_output'}::{numbers[loss.name]}"


@pytest.mark.parametrize("by_block", [False, True])
def test_A8_of_several_outputs_one_must_be_named(tmp_path, by_block):
    optimizer = onnxblock.optim.SGD() if by_block else SGD
    with pytest.raises(ValueError, match="2 outputs"):
        generate(tmp_path, two_heads(), ["a"], MSE, optimizer)
    case = generate(tmp_path, two_heads(), ["b"], MSE, optimizer, loss_input_names=["second"])
    assert len(case.model("eval").graph.input[1].type.tensor_type.shape.dim) == 2


def test_A9_a_block_of_ones_own_is_the_loss(tmp_path):
    case = generate(tmp_path, two_heads(), ["a", "b"], Both())
    graph = case.model("training").graph
    assert names(graph.input)[:3] == ["input", "one", "two"]
    assert names(graph.output)[:3] == ["onnx::add_output::15", "onnx::reducemean_output::6",
                                       "onnx::reducemean_output::13"]
    _, module, _ = case.session()
    ones = np.ones((2, 4), np.float32)
    total, first, second = module(ones, np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32))
    np.testing.assert_allclose(total, first + second, rtol=1e-6)


class FirstOnly(onnxblock.Block):
    def build(self, first, *_):
        return onnxblock.loss.MSELoss()(first)


def test_A9_a_block_may_use_some_outputs_only(tmp_path):
    graph = generate(tmp_path, two_heads(), ["a"], FirstOnly()).model("training").graph
    assert names(graph.output)[1:] == ["a_grad.accumulation.out"]
    assert not any("second" in node.output for node in graph.node)


def test_A10_loss_input_names_choose_and_reorder(tmp_path):
    graph = generate(tmp_path, two_heads(), ["a", "b"], Both(), loss_input_names=["second", "first"]).model(
        "training").graph
    assert [dim.dim_value for dim in graph.input[1].type.tensor_type.shape.dim][1:] == [2]


@pytest.mark.parametrize("loss", [MSE, onnxblock.loss.MSELoss()])
def test_A10_loss_input_names_may_name_the_target(tmp_path, loss):
    model = two_heads()
    model.graph.node.append(helper.make_node("MatMul", ["input", "a"], ["third"], "c"))
    model.graph.output.append(helper.make_tensor_value_info("third", FLOAT, ["batch", 3]))
    graph = generate(tmp_path, model, ["a"], loss, SGD, loss_input_names=["first", "third"]).model("eval").graph
    assert names(graph.input) == ["input", "a"]
    with pytest.raises((ValueError, TypeError)):
        generate(tmp_path, model, ["a"], loss, SGD, loss_input_names=["first", "second", "third"])


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A11_any_tensor_may_be_an_additional_output(tmp_path, loss):
    case = generate(tmp_path, loss=loss, additional_output_names=["r", "output"])
    for kind in ("training", "eval"):
        assert names(case.model(kind).graph.output)[1:3] == ["r", "output"]
    _, module, _ = case.session()
    _, relu, output = module(np.ones((2, 4), np.float32), np.zeros(2, np.int64))
    assert relu.shape == (2, 5) and output.shape == (2, 3)
    case.session()[1].export_model_for_inferencing(tmp_path / "inference.onnx", ["output"])


# --- A12 to A18: the models

def test_A12_inputs_and_outputs_have_their_order(tmp_path):
    case = generate(tmp_path, requires_grad=["fc2.weight", "fc1.weight"], frozen_params=["fc1.bias"])
    graph = case.model("training").graph
    parameters = ["fc1.weight", "fc1.bias", "fc2.weight"]  # as in the model
    trained = ["fc1.weight", "fc2.weight"]
    assert names(graph.input) == ["input", "labels", *parameters,
                                  *(f"{name}_grad.accumulation.buffer" for name in trained), "lazy_reset_grad"]
    assert names(graph.output) == ["onnx::loss::2", *(f"{name}_grad.accumulation.out" for name in trained)]
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.input[2:]]
    assert shapes == [[5, 4], [5], [3, 5], [5, 4], [3, 5], [1]]


def test_A13_gradients_are_accumulated_by_one_node_each(tmp_path):
    graph = generate(tmp_path, additional_output_names=["output"]).model("training").graph
    nodes = [node for node in graph.node if node.op_type == "InPlaceAccumulatorV2"]
    assert nodes == list(graph.node)[-4:]
    for i, (node, name) in enumerate(zip(nodes, ALL)):
        assert (node.domain, node.name) == ("com.microsoft", f"GradientAccumulator{2 + i}")
        assert list(node.input) == [f"{name}_grad.accumulation.buffer", f"{name}_grad", "lazy_reset_grad"]
        assert list(node.output) == [f"{name}_grad.accumulation.out"]


def test_A14_back_propagation_starts_from_one(tmp_path):
    graph = generate(tmp_path).model("training").graph
    seed = next(t for t in graph.initializer if t.name == "onnx::loss::2_grad")
    assert seed.data_type == FLOAT and list(seed.dims) == []
    assert onnx.numpy_helper.to_array(seed) == 1


def dropout_and_norm():
    nodes = [helper.make_node("Dropout", ["input", "ratio", "on"], ["d"], "drop"),
             helper.make_node("BatchNormalization", ["d", "scale", "bias", "mean", "var"], ["n", "m2", "v2"], "norm",
                              training_mode=1),
             helper.make_node("MatMul", ["n", "w"], ["output"], "w")]
    four = np.ones(4)
    return model_of(nodes, [("input", ["batch", 4])], [("output", ["batch", 3])],
                    [tensor("ratio", 0.5), tensor("on", True, bool), tensor("scale", four), tensor("bias", four),
                     tensor("mean", four * 0), tensor("var", four), tensor("w", np.ones((4, 3)))])


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A15_the_eval_model_is_switched_off_and_shares_parameters(tmp_path, loss):
    case = generate(tmp_path, dropout_and_norm(), ["scale", "bias", "w"], loss, frozen_params=["mean", "var"])
    training, evaluation = case.model("training"), case.model("eval")
    by_op = {node.op_type: node for node in evaluation.graph.node}
    assert len([name for name in by_op["Dropout"].input if name]) == 2
    norm = by_op["BatchNormalization"]
    assert [a.i for a in norm.attribute if a.name == "training_mode"] == [0] and len(norm.output) == 1
    assert not any("Grad" in node.op_type or "Accumulator" in node.op_type for node in evaluation.graph.node)
    assert names(evaluation.graph.input) == names(training.graph.input)[:len(evaluation.graph.input)]
    assert names(evaluation.graph.input)[2:] == ["scale", "bias", "mean", "var", "w"]
    _, module, _ = case.session()
    module.eval()
    batch = np.ones((2, 4), np.float32), np.zeros(2, np.int64)
    assert module(*batch) == module(*batch)


def test_A16_trained_frozen_and_constant_parameters(tmp_path):
    case = generate(tmp_path, requires_grad=["fc2.*"], frozen_params=["fc1.weight", "no.such.buffer"])
    state = case.state()
    assert {name: p.requires_grad for name, p in state.parameters.items()} == {
        "fc1.weight": False, "fc2.bias": True, "fc2.weight": True}
    assert "fc1.bias" in names(case.model("training").graph.initializer)
    assert "fc1.bias" in names(case.model("eval").graph.initializer)


def test_A16_an_integer_cannot_be_trained_but_frozen(tmp_path):
    model = mlp()
    model.graph.initializer.append(tensor("shape", [-1, 4], np.int64))
    model.graph.node.insert(0, helper.make_node("Reshape", ["input", "shape"], ["reshaped"], "reshape"))
    model.graph.node[1].input[0] = "reshaped"
    with pytest.raises(ValueError, match='"shape" is of int64'):
        generate(tmp_path, model, [*ALL, "shape"])
    assert "shape" in generate(tmp_path, model, frozen_params=["shape"]).state().parameters


def test_A16_an_initializer_that_is_an_input_too_is_a_parameter(tmp_path):
    model = mlp()
    for parameter in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(parameter.name, FLOAT, list(parameter.dims)))
    for loss in (CE, onnxblock.loss.CrossEntropyLoss()):
        graph = generate(tmp_path, model, loss=loss).model("training").graph
        assert names(graph.input)[:6] == ["input", "labels", *ALL]


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A17_without_names_nothing_is_trained_and_all_stays_constant(tmp_path, loss):
    case = generate(tmp_path, requires_grad=None, loss=loss, optimizer=None)
    graph = case.model("training").graph
    assert names(graph.input) == ["input", "labels", "lazy_reset_grad"]
    assert names(graph.output) == ["onnx::loss::2"]
    assert set(ALL) <= set(names(graph.initializer))
    assert len(case.state().parameters) == 0


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A18_an_input_may_have_a_gradient(tmp_path, loss):
    case = generate(tmp_path, requires_grad=["input", "fc1.bias"], loss=loss)
    graph = case.model("training").graph
    assert "input_grad.accumulation.buffer" in names(graph.input)
    assert "input_grad.accumulation.out" in names(graph.output)
    assert list(case.state().parameters) == ["fc1.bias"]


def test_A18_only_inputs_leave_an_optimizer_without_work(tmp_path):
    case = generate(tmp_path, requires_grad=["input"], optimizer=None)
    assert case.files() == ["checkpoint", "eval_model.onnx", "training_model.onnx"]
    for optimizer in (ADAMW, onnxblock.optim.AdamW()):
        with pytest.raises(ValueError, match="optimizer was asked for"):
            generate(tmp_path / "new", requires_grad=["input"], optimizer=optimizer)


# --- A19 to A22: checkpoints and large models

def test_A19_the_checkpoint_holds_the_values(tmp_path):
    state = generate(tmp_path, requires_grad=["fc1.*"], frozen_params=["fc2.*"]).state()
    for parameter in mlp().graph.initializer:
        np.testing.assert_array_equal(state.parameters[parameter.name].data, onnx.numpy_helper.to_array(parameter))
        assert state.parameters[parameter.name].requires_grad == parameter.name.startswith("fc1")
    assert len(state.properties) == 0


@pytest.mark.parametrize("loss", [CE, onnxblock.loss.CrossEntropyLoss()])
def test_A20_a_nominal_checkpoint_has_names_and_no_values(tmp_path, loss):
    case = generate(tmp_path, loss=loss, nominal_checkpoint=True)
    nominal = case.state("nominal_checkpoint")
    assert nominal.is_nominal and "fc1.bias" in nominal.parameters
    assert case.path("nominal_checkpoint").stat().st_size < case.path("checkpoint").stat().st_size
    module = strop.Module(case.path("training_model.onnx"), nominal)
    flat = strop.Module(case.path("training_model.onnx"), case.state()).get_contiguous_parameters()
    module.copy_buffer_to_parameters(flat, trainable_only=False)
    np.testing.assert_array_equal(nominal.parameters["fc1.weight"].data, case.state().parameters["fc1.weight"].data)


def wide(folder=None, rows=600_000):
    """A model with one float32 weight of 4 KiB a row, of which it reads some; in a folder, its path."""
    nodes = [helper.make_node("Gather", ["w", "input"], ["output"], "rows")]
    model = model_of(nodes, [("input", ["batch"], INT64)], [("output", ["batch", 1024])])
    weight = model.graph.initializer.add(name="w", data_type=FLOAT, dims=[rows, 1024])
    if folder is None:
        weight.raw_data = bytes(4096 * rows)
        return model
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights")
    with open(folder / "weights", "wb") as weights:
        weights.truncate(4096 * rows)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


LARGE = pytest.mark.skipif(not os.environ.get("STROP_LARGE_TESTS"), reason="STROP_LARGE_TESTS=1: needs 12 GB")


@LARGE
def test_A21_a_checkpoint_above_2_GB_has_data_beside_it(tmp_path):
    case = generate(tmp_path / "out", wide(tmp_path), ["w"], MSE, SGD)
    assert case.files() == ["checkpoint", "checkpoint.data", "eval_model.onnx", "optimizer_model.onnx",
                            "training_model.onnx"]
    assert case.path("training_model.onnx").stat().st_size < 1 << 20
    assert case.state().parameters["w"].view().shape == (600_000, 1024)


@LARGE
@pytest.mark.parametrize("loss", [*artifacts.LossType, onnxblock.loss.MSELoss(), onnxblock.loss.BCEWithLogitsLoss()])
@pytest.mark.parametrize("by_path", [True, False])
def test_A22_a_model_above_2_GB_takes_every_loss(tmp_path, loss, by_path):
    case = generate(tmp_path / "out", wide(tmp_path if by_path else None), ["w"], loss, SGD)
    assert case.path("checkpoint.data").stat().st_size >= 600_000 * 4096


@pytest.mark.parametrize("by_path", [True, False])
@pytest.mark.parametrize("loss", [MSE, onnxblock.loss.MSELoss()])
def test_A22_large_models_cross_in_parts(tmp_path, monkeypatch, loss, by_path):
    from strop import _block_artifacts
    from strop.onnxblock import _protos
    monkeypatch.setattr(_protos, "_MOST_IN_ONE", 0)
    monkeypatch.setattr(_block_artifacts, "_MOST_TO_LOAD", 0)
    model = mlp(outputs=600)
    if by_path:
        onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
        model = tmp_path / "model.onnx"
    case = generate(tmp_path / "out", model, loss=loss)
    for parameter in mlp(outputs=600).graph.initializer:
        np.testing.assert_array_equal(case.state().parameters[parameter.name].data,
                                      onnx.numpy_helper.to_array(parameter))
    case.session()


# --- A23 to A26

def test_A23_there_is_no_ort_format(tmp_path):
    with pytest.raises(strop.Error, match="Strop has no ORT format"):
        generate(tmp_path, ort_format=True)
    assert os.listdir(tmp_path) == []


def test_A24_a_custom_op_library_must_exist(tmp_path):
    with pytest.raises(strop.Error, match="there is no custom op library"):
        generate(tmp_path, custom_op_library=tmp_path / "none.so")
    assert os.listdir(tmp_path) == []


def test_A24_its_operators_are_told_to_be_unknown(tmp_path):
    library = tmp_path / "ops.so"
    library.write_bytes(b"")
    model = mlp()
    model.graph.node[1].domain, model.graph.node[1].op_type = "my.ops", "MyRelu"
    model.opset_import.add(domain="my.ops", version=1)
    for loss in (CE, onnxblock.loss.CrossEntropyLoss()):
        with pytest.raises(strop.Error, match="MyRelu.*ops.so"):
            generate(tmp_path / "out", model, loss=loss, custom_op_library=str(library))
    generate(tmp_path / "out", custom_op_library=os.fsencode(library))


@pytest.mark.parametrize("opset", [12, 13, 15, 17, 20])
@pytest.mark.parametrize("optimizer", [ADAMW, onnxblock.optim.AdamW()])
def test_A25_all_models_have_the_opset_and_ir_version_of_the_model(tmp_path, opset, optimizer):
    case = generate(tmp_path, mlp(opset), optimizer=optimizer)
    for kind in ("training", "eval", "optimizer"):
        model = case.model(kind)
        assert {entry.domain: entry.version for entry in model.opset_import}[""] == opset
        assert model.ir_version == 8


def test_A25_a_newer_opset_on_request(tmp_path):
    for loss in (CE, onnxblock.loss.CrossEntropyLoss()):
        case = generate(tmp_path, mlp(13), loss=loss, opset=17)
        assert {e.domain: e.version for e in case.model("training").opset_import}[""] == 17


def test_A26_steps_are_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO, "strop")
    generate(tmp_path, optimizer=None, prefix="p-")
    assert [text for text in ("CrossEntropyLoss", "skipping the optimizer", "p-", "Saved") if text not in caplog.text] == []
    assert "overwriting" not in caplog.text
    generate(tmp_path, prefix="p-")
    assert caplog.text.count("already exists, overwriting") == 3
    assert "AdamW" in caplog.text


# --- In memory, and without files left

def test_make_artifacts_gives_them_in_memory():
    made = artifacts.make_artifacts(mlp(), ["*"], loss=CE, optimizer=SGD, additional_output_names=["output"],
                                    nominal_checkpoint=True)
    assert made.trainable == ALL and made.frozen == [] and made.loss_name == "onnx::loss::2"
    assert made.user_inputs == ["input", "labels"] and made.user_outputs == ["onnx::loss::2", "output"]
    state = strop.CheckpointState.load_from_bytes(made.checkpoint)
    module = strop.Module(made.training_model, state, made.eval_model)
    optimizer = strop.Optimizer(made.optimizer_model, module)
    batch = np.ones((2, 4), np.float32), np.zeros(2, np.int64)
    first, _ = module(*batch)
    optimizer.set_learning_rate(0.1)
    optimizer.step()
    assert module(*batch)[0] < first
    assert strop.CheckpointState.load_from_bytes(made.nominal_checkpoint).is_nominal


def test_F5_the_working_directory_stays_clean(tmp_path, monkeypatch):
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    onnx.save(two_heads(), tmp_path / "model.onnx", save_as_external_data=True, location="w", size_threshold=0)
    generate(tmp_path / "out", str(tmp_path / "model.onnx"), ["a", "b"], Both())
    assert os.listdir(tmp_path / "cwd") == []


def test_the_model_is_never_overwritten(tmp_path):
    onnx.save(mlp(), tmp_path / "training_model.onnx")
    for loss in (CE, onnxblock.loss.CrossEntropyLoss()):
        with pytest.raises(ValueError, match="take the place"):
            generate(tmp_path, tmp_path / "training_model.onnx", loss=loss)
    assert os.listdir(tmp_path) == ["training_model.onnx"]
