# SPDX-License-Identifier: Apache-2.0
"""strop.onnxblock by the lines of a feature list: blocks and losses (B), models and contexts (C), optimizers (D)."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import strop
from strop import _generated_names, artifacts

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402
from small_models import ALL, FLOAT, INT64, mlp, model_of, names, tensor, two_heads  # noqa: E402

from strop import onnxblock  # noqa: E402
from strop.onnxblock import blocks, loss, optim  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_names():
    """Generated names are numbered as in a fresh process."""
    _generated_names.set_names_used(0)


class Training(onnxblock.TrainingBlock):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def build(self, *args):
        return self.inner(*args)


class Forward(onnxblock.ForwardBlock):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def build(self, *args):
        return self.inner(*args)


def forward(inner, *args, model=None):
    """The model that a block makes, behind `model`."""
    block = Forward(inner)
    with onnxblock.base(mlp() if model is None else model):
        block(*args)
    return block.to_model_proto()


def value(model, feeds):
    """The first output of a model."""
    function = strop.Function(model.SerializeToString())
    outputs, _ = function(*[feeds[name] for name in names(model.graph.input)])
    return outputs[model.graph.output[0].name]


def bare(dims=("batch", 3), kind=FLOAT, opset=14):
    """input -> output, the same."""
    return model_of([helper.make_node("Identity", ["input"], ["output"], "same")], [("input", list(dims), kind)],
                    [("output", list(dims), kind)], opset=opset)


# --- B1 to B3: names

def test_B1_enums_have_their_values():
    assert {kind.name: kind.value for kind in artifacts.LossType} == {
        "MSELoss": 1, "CrossEntropyLoss": 2, "BCEWithLogitsLoss": 3, "L1Loss": 4}
    assert {kind.name: kind.value for kind in artifacts.OptimType} == {"AdamW": 1, "SGD": 2}


def test_B2_names_count_through_the_process():
    from strop.onnxblock._graph_utils import generate_graph_name
    assert [generate_graph_name("loss"), generate_graph_name("weight")] == ["onnx::loss::1", "onnx::weight::2"]
    with onnxblock.base(mlp()) as accessor:
        blocks.Add()("output", "output")
    node = accessor._model.graph.node[-1]
    assert (node.output[0], node.name) == ("onnx::add_output::3", "onnx::Add::4")


def test_B2_the_counter_starts_at_1_in_a_fresh_process():
    code = "from strop.onnxblock._graph_utils import generate_graph_name as g; print(g('x'), g('x'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout
    assert printed.split() == ["onnx::x::1", "onnx::x::2"]


@pytest.mark.parametrize("by_block", [False, True])
def test_B3_the_first_loss_is_2_and_the_second_8(by_block):
    kind = loss.CrossEntropyLoss() if by_block else artifacts.LossType.CrossEntropyLoss
    made = [artifacts.make_artifacts(mlp(), ALL, loss=kind, optimizer=artifacts.OptimType.AdamW) for _ in range(2)]
    assert [one.loss_name for one in made] == ["onnx::loss::2", "onnx::loss::8"]
    optimizers = [onnx.ModelProto.FromString(one.optimizer_model) for one in made]
    assert [one.graph.output[0].name for one in optimizers] == ["onnx::adamw.updated_flag::5",
                                                                "onnx::adamw.updated_flag::11"]


# --- B4 to B8: losses

def softplus(x):
    return np.logaddexp(0, x)


X = np.array([[1.5, -0.5, 0.25], [-3, 2, 0]], np.float32)
T = np.array([[1, 0, 0.5], [0.25, 1, 0]], np.float32)
LABELS = np.array([2, 0])
ELEMENTWISE = {
    "MSELoss": lambda x, t: (x - t)**2,
    "L1Loss": lambda x, t: np.abs(x - t),
    "BCEWithLogitsLoss": lambda x, t: (1 - t) * x + softplus(-x),
}
REDUCTIONS = {"mean": np.mean, "sum": np.sum, "none": lambda x: x}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_B4_losses_of_elements(kind, reduction, dtype):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = forward(getattr(loss, kind)(reduction=reduction), "output", model=bare(kind=element))
    assert names(model.graph.input) == ["input", "target"]
    result = value(model, {"input": X.astype(dtype), "target": T.astype(dtype)})
    wanted = REDUCTIONS[reduction](ELEMENTWISE[kind](X, T))
    assert result.dtype == dtype and result.shape == np.shape(wanted)
    np.testing.assert_allclose(result, wanted, rtol=1e-5)


@pytest.mark.parametrize("kind", [*ELEMENTWISE, "CrossEntropyLoss"])
def test_B4_reductions_have_rank_0_and_unknown_ones_are_refused(kind):
    model = forward(getattr(loss, kind)(), "output", model=bare())
    assert len(model.graph.output[0].type.tensor_type.shape.dim) == 0
    with pytest.raises(RuntimeError, match='"mean", "sum" or "none", got \'max\''):
        getattr(loss, kind)(reduction="max")


def cross_entropy(x, labels, weight, ignored):
    x = np.moveaxis(x, 1, -1)
    log_prob = x - np.log(np.exp(x).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_prob, np.where(labels == ignored, 0, labels)[..., None], -1)[..., 0]
    factors = np.where(labels == ignored, 0, weight[np.where(labels == ignored, 0, labels)])
    return -picked * factors, factors


@pytest.mark.parametrize("opset", [11, 14])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", [{}, {"weight": np.array([0.5, 2, 3])}, {"ignore_index": 2},
                                     {"weight": np.array([0.5, 2, 3]), "ignore_index": 0}])
def test_B5_cross_entropy_with_weights_and_ignored_labels(opset, reduction, options):
    model = forward(loss.CrossEntropyLoss(reduction=reduction, **options), "output", model=bare(opset=opset))
    each, factors = cross_entropy(X, LABELS, options.get("weight", np.ones(3)), options.get("ignore_index", -100))
    wanted = each.sum() / factors.sum() if reduction == "mean" else REDUCTIONS[reduction](each)
    np.testing.assert_allclose(value(model, {"input": X, "labels": LABELS}), wanted, rtol=1e-5)


def test_B5_log_prob_has_a_type_and_labels_are_int64():
    model = forward(loss.CrossEntropyLoss(), "output")
    node = model.graph.node[-1]
    assert list(node.output) == ["onnx::loss::2", "onnx::log_prob::3"] and len(node.input) == 2
    info = {v.name: v.type.tensor_type for v in model.graph.value_info}["onnx::log_prob::3"]
    assert info.elem_type == FLOAT and [d.dim_param or d.dim_value for d in info.shape.dim] == ["batch", 3]
    assert model.graph.input[-1].type.tensor_type.elem_type == INT64
    assert not any(a.name == "ignore_index" for a in node.attribute)


@pytest.mark.parametrize("dims, labels", [(["batch", 3], ["batch"]), (["batch", 3, 5], ["batch", 5]),
                                          (["batch", 3, "height", 4], ["batch", "height", 4])])
def test_B6_labels_lack_the_axis_of_classes(dims, labels):
    model = forward(loss.CrossEntropyLoss(), "output", model=bare(dims))
    assert [d.dim_param or d.dim_value for d in model.graph.input[-1].type.tensor_type.shape.dim] == labels


def test_B6_scores_need_an_axis_of_classes():
    with pytest.raises(ValueError, match='"output" has rank 1'):
        forward(loss.CrossEntropyLoss(), "output", model=bare(["batch"]))


@pytest.mark.parametrize("options", [{}, {"weight": [1, 2, 3]}, {"pos_weight": [3, 0.5, 1]},
                                     {"weight": [[1, 2, 3]], "pos_weight": [4]}])
def test_B7_bce_has_weights_and_is_stable(options):
    model = forward(loss.BCEWithLogitsLoss(**options), "output", model=bare())
    for scale in (1, 200):
        x = scale * X
        each = (1 - T) * softplus(x) + np.asarray(options.get("pos_weight", 1)) * T * softplus(-x)
        each = each * np.asarray(options.get("weight", 1))
        np.testing.assert_allclose(value(model, {"input": x, "target": T}), each.mean(), rtol=1e-5)
    number = 23 + 2 * len(options)
    assert model.graph.output[0].name == f"onnx::reducemean_output::{number}"


@pytest.mark.parametrize("kind", [*ELEMENTWISE, "CrossEntropyLoss"])
def test_B8_a_target_that_is_there_is_used(kind):
    dims, element = (["batch"], INT64) if kind == "CrossEntropyLoss" else (["batch", 3], FLOAT)
    for read in (False, True):
        model = bare()
        model.graph.input.append(helper.make_tensor_value_info("mine", element, dims))
        if read:
            model.graph.node.append(helper.make_node("Identity", ["mine"], ["other"], "read"))
        result = forward(getattr(loss, kind)(), "output", "mine", model=model)
        assert names(result.graph.input) == ["input", "mine"]
    with pytest.raises(ValueError, match="with itself"):
        forward(getattr(loss, kind)(), "output", "output", model=bare())


def test_B8_a_target_may_be_made_by_a_node():
    model = bare()
    model.graph.node.append(helper.make_node("Relu", ["input"], ["target"], "relu"))
    result = forward(loss.MSELoss(), "output", model=model)
    assert names(result.graph.input) == ["input"]
    np.testing.assert_allclose(value(result, {"input": X}), np.mean(np.minimum(X, 0)**2), rtol=1e-6)


def test_a_loss_may_read_any_tensor():
    model = forward(loss.MSELoss(), "h")
    assert [d.dim_param or d.dim_value for d in model.graph.input[-1].type.tensor_type.shape.dim] == ["batch", 5]


# --- B9, B10: blocks

UNARY = {"Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Log": np.log, "Neg": np.negative, "Abs": np.abs}
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
P = np.abs(X) + 0.5


@pytest.mark.parametrize("name", UNARY)
def test_B9_unary(name):
    model = forward(getattr(blocks, name)(), "output", model=bare())
    assert model.graph.output[0].name == f"onnx::{name.lower()}_output::1"
    np.testing.assert_allclose(value(model, {"input": P}), UNARY[name](P), rtol=1e-6)


@pytest.mark.parametrize("name", BINARY)
def test_B9_binary(name):
    class Block(onnxblock.Block):
        def build(self, x):
            return getattr(blocks, name)()(x, blocks.Constant(1.5)())
    model = forward(Block(), "output", model=bare())
    assert model.graph.initializer[0].name == "onnx::initializer::1" and list(model.graph.initializer[0].dims) == [1]
    np.testing.assert_allclose(value(model, {"input": P}), BINARY[name](P, np.float32(1.5)), rtol=1e-6)


def test_B9_any_operator_by_name():
    np.testing.assert_allclose(value(forward(blocks._UnaryOp("Elu", alpha=2.0), "output", model=bare()), {"input": X}),
                               np.where(X > 0, X, 2 * np.expm1(X)), rtol=1e-6)
    np.testing.assert_allclose(value(forward(blocks._BinaryOp("Max"), "output", "input", model=bare()), {"input": X}), X)
    for kind in (blocks._UnaryOp, blocks._BinaryOp):
        with pytest.raises(RuntimeError, match="name is empty"):
            kind("")


@pytest.mark.parametrize("keepdims", [None, False])
@pytest.mark.parametrize("name", ["ReduceMean", "ReduceSum"])
def test_B9_reductions(name, keepdims):
    block = getattr(blocks, name)() if keepdims is None else getattr(blocks, name)(keepdims=keepdims)
    result = value(forward(block, "output", model=bare()), {"input": X})
    assert result.shape == ((1, 1) if keepdims is None else ())
    np.testing.assert_allclose(result, getattr(X, name[6:].lower())(keepdims=keepdims is None), rtol=1e-6)


@pytest.mark.parametrize("opset", [9, 14])
@pytest.mark.parametrize("bounds", [{}, {"clip_min": -0.4}, {"clip_max": 0.4}, {"clip_min": -0.4, "clip_max": 1}])
def test_B9_clip(opset, bounds):
    model = forward(blocks.Clip(**bounds), "output", model=bare(opset=opset))
    wanted = np.clip(X, bounds.get("clip_min", -np.inf), bounds.get("clip_max", np.inf))
    np.testing.assert_allclose(value(model, {"input": X}), wanted)


def test_B9_pow_cast_linear_pass_through():
    np.testing.assert_allclose(value(forward(blocks.Pow(3), "output", model=bare()), {"input": X}), X**3, rtol=1e-6)
    model = forward(blocks.Cast(onnx.TensorProto.INT64), "output", model=bare())
    assert value(model, {"input": X}).dtype == np.int64
    assert model.graph.output[0].name == "onnx::cast.output::4"
    model = forward(blocks.Linear(3, 4, alpha=2.0, beta=0.5), "output", model=bare())
    weight, bias = (numpy_helper.to_array(t) for t in model.graph.initializer)
    assert [t.name for t in model.graph.initializer] == ["onnx::linear.weight::6", "onnx::linear.bias::7"]
    assert weight.std() > 0.2
    np.testing.assert_allclose(value(model, {"input": X}), 2 * X @ weight + bias / 2, rtol=1e-5)
    assert len(forward(blocks.Linear(3, 4, bias=False), "output", model=bare()).graph.initializer) == 1
    with onnxblock.base(bare()):
        assert blocks.PassThrough()("input", "output") == ("input", "output")


def test_B9_input_like():
    with onnxblock.base(mlp()) as accessor:
        assert blocks.InputLike("output")() == "onnx::input::1"
        assert blocks.InputLike("input")("again") == "again"
        assert blocks.InputLike("h")("hidden") == "hidden"
        shapes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in accessor.model.graph.input]
        with pytest.raises(LookupError, match="nothing"):
            blocks.InputLike("nothing")()
    assert shapes == [["batch", 4], ["batch", 3], ["batch", 4], ["batch", 5]]


def test_B9_lists_and_norms():
    with onnxblock.base(bare()) as accessor:
        assert blocks.SequenceConstruct()("input", "output") == "onnx::sequenceconstruct_output::1"
        assert list(accessor.model.graph.node[-1].input) == ["input", "output"]
    model = forward(blocks.ReduceAllL2(), "input", "output", model=bare())
    assert "com.microsoft" in {entry.domain for entry in model.opset_import}
    np.testing.assert_allclose(value(model, {"input": X}), [np.sqrt(2 * (X**2).sum())], rtol=1e-6)


def test_B9_label_encoder_in_front_of_a_loss():
    class Encoded(onnxblock.Block):
        def build(self, scores):
            labels = blocks.InputLike("raw")("raw_labels")
            encoded = blocks.LabelEncoder(default_int64=0, keys_int64s=[7, 9], values_int64s=[1, 2])(labels)
            return loss.CrossEntropyLoss()(scores, encoded)
    model = bare()
    model.graph.input.append(helper.make_tensor_value_info("raw", INT64, ["batch"]))
    with onnxblock.base(model) as accessor:
        assert Encoded()("output").startswith("onnx::loss::")
        node = next(n for n in accessor.model.graph.node if n.op_type == "LabelEncoder")
    assert node.domain == "ai.onnx.ml" and node.output[0].startswith("onnx::label_encoder.output::")
    assert [a.name for a in node.attribute] == ["default_float", "default_int64", "default_string", "keys_int64s",
                                                "values_int64s"]


class Raw(onnxblock.Block):
    """Any node, in a block."""

    def __init__(self, *args, **attributes):
        self.node = helper.make_node(*args, **attributes)

    def build(self):
        self.base.graph.node.append(self.node)
        return self.node.output[0]


@pytest.mark.parametrize("node, text", [
    (("Reluu", ["output"], ["y"], "wrong"), 'Reluu "wrong"'),
    (("Relu", ["no.such"], ["y"], "wrong"), "no.such"),
    (("Relu", ["output", "output"], ["y"], "wrong"), 'Relu "wrong"'),
    (("Relu", ["output"], ["output"], "wrong"), "output"),
])
def test_B10_the_model_is_checked_after_each_block(node, text):
    with onnxblock.base(mlp()), pytest.raises(strop.Error, match=text):
        Raw(*node)()


def test_B10_operators_of_onnx_runtime_and_of_others_pass():
    model = bare()
    model.graph.node.append(helper.make_node("MyOp", ["input"], ["mine"], "mine", domain="my.ops"))
    model.graph.initializer.append(tensor("scale", np.ones(3)))
    model.opset_import.add(domain="my.ops", version=1)
    with onnxblock.base(model):
        # In ONNX Runtime's files this operator of its own is in the default domain.
        Raw("SimplifiedLayerNormalization", ["output", "scale"], ["normal"], "norm")()
        blocks.Neg()("normal")


# --- C1 to C3: blocks with models

def test_C1_a_forward_block_has_a_model_after_its_call():
    block = Forward(loss.MSELoss())
    with pytest.raises(RuntimeError, match="call the block first"):
        block.to_model_proto()
    with onnxblock.base(mlp()) as accessor:
        assert block("output") == "onnx::reducemean_output::6"
        assert names(accessor.model.graph.output) == ["onnx::reducemean_output::6"]
    model = block.to_model_proto()
    onnx.checker.check_model(model, full_check=True)
    assert "h" in names(model.graph.value_info)


def test_C1_a_training_block_has_models_and_parameters_after_its_call():
    block = Training(loss.CrossEntropyLoss())
    for call in (block.to_model_proto, block.parameters):
        with pytest.raises(RuntimeError, match="call the block first"):
            call()
    for name in ALL[::-1]:
        block.requires_grad(name)
    with onnxblock.base(mlp()) as accessor:
        assert block("output") == "onnx::loss::2"
        assert names(accessor.model.graph.output)[1] == "fc1.weight_grad.accumulation.out"
    training, evaluation = block.to_model_proto()
    assert names(evaluation.graph.output) == ["onnx::loss::2"]
    assert names(training.graph.input)[-1] == "lazy_reset_grad"
    trainable, frozen = block.parameters()
    assert names(trainable) == ALL and frozen == []
    for ours, theirs in zip(trainable, mlp().graph.initializer):
        np.testing.assert_array_equal(numpy_helper.to_array(ours), numpy_helper.to_array(theirs))


@pytest.mark.parametrize("kind", [*ELEMENTWISE, "CrossEntropyLoss"])
@pytest.mark.parametrize("block", [Forward, Training])
def test_C1_all_losses_compose_without_a_trainable_parameter(kind, block):
    with onnxblock.base(mlp()):
        block(getattr(loss, kind)())("output")


def test_C1_outside_of_a_context_a_block_says_so():
    with pytest.raises(RuntimeError, match="inside onnxblock.base"):
        blocks.Add()("a", "b")


def test_C1_an_instance_serves_many_models():
    block = Training(loss.MSELoss())
    block.requires_grad("fc1.weight")
    for outputs in (3, 4):
        with onnxblock.base(mlp(outputs=outputs)):
            block("output")
        assert block.to_model_proto()[0].graph.input[1].type.tensor_type.shape.dim[1].dim_value == outputs


def test_C2_subclasses_need_not_call_the_base_constructor():
    class Bare(onnxblock.TrainingBlock):
        def __init__(self):
            self.loss = loss.MSELoss()

        def build(self, output):
            return self.loss(output), output

    block = Bare()
    block.requires_grad("fc1.bias")
    with onnxblock.base(mlp()):
        block("output")
    assert names(block.to_model_proto()[1].graph.output) == ["onnx::reducemean_output::6", "output"]

    class BareForward(onnxblock.ForwardBlock):
        def __init__(self):
            pass

        def build(self, output):
            return blocks.Neg()(output)

    with onnxblock.base(mlp()):
        BareForward()("output")


def test_C3_requires_grad_moves_names_between_the_lists():
    block = Training(loss.MSELoss())
    for name in ALL:
        block.requires_grad(name)
    block.requires_grad("fc1.bias", False)
    block.requires_grad("fc2.bias", False)
    block.requires_grad("fc2.bias", True)
    with onnxblock.base(mlp()):
        block("output")
    trainable, frozen = block.parameters()
    assert names(trainable) == ["fc1.weight", "fc2.weight", "fc2.bias"] and names(frozen) == ["fc1.bias"]


# --- C4 to C6: contexts and checkpoints

def test_C4_contexts_do_not_nest_and_are_left_after_errors(tmp_path):
    for first in (lambda: onnxblock.base(mlp()), onnxblock.empty_base):
        for second in (lambda: onnxblock.base(mlp()), onnxblock.empty_base):
            with first(), pytest.raises(RuntimeError, match="one model at a time"), second():
                pass
    with pytest.raises(ZeroDivisionError), onnxblock.base(mlp()):
        1 / 0
    for wrong, text in ((None, "got None"), ("model.onnx", "got str")):
        with pytest.raises(RuntimeError, match=text), onnxblock.base(wrong):
            pass
    library = tmp_path / "ops.so"
    with pytest.raises(RuntimeError, match="no custom op library"), onnxblock.custom_op_library(library):
        pass
    library.write_bytes(b"")
    with onnxblock.custom_op_library(library):
        with pytest.raises(RuntimeError, match="one library at a time"), onnxblock.custom_op_library(str(library)):
            pass
    with onnxblock.custom_op_library(library), onnxblock.base(mlp()):
        Training(loss.MSELoss())("output")


def test_C4_the_accessor_knows_model_and_path():
    model = mlp()
    with onnxblock.base(model, pathlib.Path("folder/model.onnx")) as accessor:
        assert accessor.model == model and accessor.model is not model
        assert accessor.has_path and accessor.path == os.path.join("folder", "model.onnx")
    with onnxblock.base(model) as accessor:
        assert not accessor.has_path
        with pytest.raises(RuntimeError, match="no path"):
            accessor.path


def test_C5_an_empty_base_has_defaults():
    with onnxblock.empty_base() as accessor:
        model = accessor.model
    assert model.producer_name == "strop" and model.graph.name == "graph"
    newest = min(onnx.defs.onnx_opset_version(), 21)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("com.microsoft", 1), ("", newest)]
    assert model.ir_version == min(onnx.IR_VERSION, 10)
    with onnxblock.empty_base(opset_version=15) as accessor:
        assert accessor.model.opset_import[1].version == 15


@pytest.mark.parametrize("path_of", [str, pathlib.Path])
@pytest.mark.parametrize("nominal", [False, True])
def test_C6_checkpoints_come_and_go(tmp_path, nominal, path_of):
    block = Training(loss.MSELoss())
    block.requires_grad("fc1.*")
    block.requires_grad("fc2.weight", False)
    with onnxblock.base(mlp()):
        block("output")
    path = path_of(tmp_path / "checkpoint")
    onnxblock.save_checkpoint(block.parameters(), path, nominal_checkpoint=nominal)
    state = strop.CheckpointState.load_checkpoint(path)
    assert state.is_nominal == nominal and sorted(state.parameters) == sorted(["fc1.weight", "fc1.bias", "fc2.weight"])
    model = mlp()
    for parameter in model.graph.initializer:
        parameter.CopyFrom(tensor(parameter.name, np.zeros(list(parameter.dims))))
    if nominal:
        with pytest.raises(RuntimeError):
            onnxblock.load_checkpoint_to_model(path, model)
        return
    assert onnxblock.load_checkpoint_to_model(path, model) is None
    for ours, theirs in zip(model.graph.initializer, mlp().graph.initializer):
        wanted = numpy_helper.to_array(theirs) * (ours.name != "fc2.bias")
        np.testing.assert_array_equal(numpy_helper.to_array(ours), wanted)


def test_C6_a_tensor_takes_the_type_and_shape_of_the_checkpoint(tmp_path):
    value = np.arange(6.0).reshape(2, 3)
    onnxblock.save_checkpoint(([], [tensor("fc1.bias", value, np.float64)]), tmp_path / "checkpoint")
    model = mlp()
    onnxblock.load_checkpoint_to_model(tmp_path / "checkpoint", model)
    loaded = numpy_helper.to_array(model.graph.initializer[1])
    assert loaded.dtype == np.float64
    np.testing.assert_array_equal(loaded, value)


def test_C6_wrong_checkpoints_are_told(tmp_path):
    with pytest.raises(RuntimeError, match="got None"):
        onnxblock.save_checkpoint(None, tmp_path / "checkpoint")
    one = tensor("w", np.zeros(3))
    with pytest.raises(RuntimeError, match='"w" is there twice'):
        onnxblock.save_checkpoint(([one], [one]), tmp_path / "checkpoint")
    (tmp_path / "bad").write_bytes(b"no checkpoint")
    with pytest.raises(RuntimeError, match="bad"):
        onnxblock.load_checkpoint_to_model(tmp_path / "bad", mlp())
    assert os.listdir(tmp_path) == ["bad"]


# --- C7 to C11: outputs and gradients

class Return(onnxblock.Block):
    def __init__(self, result):
        self.result = result

    def build(self, *_):
        return self.result


@pytest.mark.parametrize("result", ["h", ["h"], ("h",)])
def test_C7_results_become_the_outputs(result):
    model = forward(Return(result))
    assert names(model.graph.output) == ["h"]
    assert [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == ["batch", 5]


@pytest.mark.parametrize("result", ["nothing", "input", "fc1.bias", ("h", "nothing")])
def test_C7_what_no_node_makes_is_no_output(result):
    with pytest.raises(LookupError, match="cannot be an output"):
        forward(Return(result))


def train(model, result, *trained):
    block = Training(Return(result))
    for name in trained:
        block.requires_grad(name)
    with onnxblock.base(model):
        block()
    return block.to_model_proto()[0]


def with_mean(model):
    model.graph.node.append(helper.make_node("ReduceMean", ["output"], ["mean"], "mean", keepdims=0))
    return model


def test_C8_what_the_loss_does_not_depend_on_cannot_be_trained():
    model = two_heads()
    model.graph.node.append(helper.make_node("ReduceMean", ["first"], ["mean"], "mean", keepdims=0))
    with pytest.raises(ValueError, match='does not depend on "b"'):
        train(model, "mean", "a", "b")
    with pytest.raises(LookupError, match="no.such"):
        train(model, "mean", "no.such")


def test_C8_gradients_stop_at_indices_and_integers():
    model = with_mean(mlp())
    model.graph.input.append(helper.make_tensor_value_info("at", INT64, [1]))
    model.graph.node[-1].input[0] = "picked"
    model.graph.node.insert(3, helper.make_node("Gather", ["output", "at"], ["picked"], "pick"))
    with pytest.raises(ValueError, match='"at" is of int64'):
        train(model, "mean", "at")
    assert "fc1.bias_grad" in {name for node in train(model, "mean", "fc1.bias").graph.node for name in node.output}


def test_C9_a_missing_gradient_names_operator_and_node():
    model = with_mean(mlp())
    model.graph.node[-1].input[0] = "floor"
    model.graph.node.insert(3, helper.make_node("DynamicQuantizeLinear", ["output"], ["q", "s", "z"], "quantize"))
    model.graph.node.insert(4, helper.make_node("MatMulInteger", ["q", "q8", "z"], ["product"], "product"))
    model.graph.node.insert(5, helper.make_node("Cast", ["product"], ["floor"], "cast", to=FLOAT))
    model.graph.initializer.append(tensor("q8", np.ones((3, 2)), np.uint8))
    with pytest.raises(strop.Error):
        train(model, "mean", "fc1.bias")


def test_C10_layer_norm_with_one_output_trains():
    model = mlp(17)
    model.graph.initializer.append(tensor("scale", np.ones(3)))
    model.graph.node.append(helper.make_node("LayerNormalization", ["output", "scale"], ["normal"], "norm"))
    model.graph.node.append(helper.make_node("ReduceMean", ["normal"], ["mean"], "mean", keepdims=0))
    nodes = {node.op_type: node for node in train(model, "mean", *ALL).graph.node}
    assert len(nodes["LayerNormalization"].output) == 3


def test_C11_a_weight_that_is_used_twice_gets_both_gradients(tmp_path):
    nodes = [helper.make_node("MatMul", ["input", "w"], ["a"], "a"), helper.make_node("MatMul", ["a", "w"], ["b"], "b"),
             helper.make_node("ReduceSum", ["b"], ["loss"], "sum", keepdims=0)]
    w = np.array([[1.0, 2], [3, 4]], np.float32)
    model = model_of(nodes, [("input", ["batch", 2])], [("loss", [])], [tensor("w", w)])
    made = artifacts.make_artifacts(model, ["w"])
    state = strop.CheckpointState.load_from_bytes(made.checkpoint)
    x = np.array([[1.0, -1]], np.float32)
    strop.Module(made.training_model, state)(x)
    ones = np.ones((1, 2), np.float32)
    np.testing.assert_allclose(state.parameters["w"].grad, x.T @ (ones @ w.T) + (x @ w).T @ ones, rtol=1e-6)


# --- D1 to D7: optimizers

PARAMETERS = ([tensor("w", np.zeros((2, 3)))], [])


def optimizer_of(block, opset=14, parameters=PARAMETERS):
    with onnxblock.empty_base(opset_version=opset):
        flag = block(parameters)
    model = block.to_model_proto()
    assert names(model.graph.output) == [flag]
    return model


def attributes_of(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


@pytest.mark.parametrize("block, inputs", [
    (optim.AdamW, ["first_order_moments", "second_order_moments"]), (optim.SGD, ["first_order_moments"])])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_D1_inputs_are_what_devices_want(block, inputs, dtype):
    graph = optimizer_of(block(), parameters=([tensor("w", np.zeros(3), dtype)], [])).graph
    assert names(graph.input) == ["learning_rate", "step", "params", "gradients", *inputs]
    rate, step, *lists = graph.input
    for info, kind in ((rate, FLOAT), (step, INT64)):
        assert info.type.tensor_type.elem_type == kind
        assert [d.dim_value for d in info.type.tensor_type.shape.dim] == [1]
    for info in lists:
        inner = info.type.sequence_type.elem_type.tensor_type
        assert inner.elem_type == helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) and not inner.HasField("shape")


def test_D2_adamw_has_its_attributes():
    node, = optimizer_of(optim.AdamW()).graph.node
    assert (node.op_type, node.domain) == ("AdamWOptimizer", "com.microsoft")
    assert list(attributes_of(node)) == ["adam_mode", "alpha", "beta", "correct_bias", "epsilon", "weight_decay"]
    assert attributes_of(node) == pytest.approx(
        {"adam_mode": 1, "alpha": 0.9, "beta": 0.999, "correct_bias": 1, "epsilon": 1e-6, "weight_decay": 0})
    node, = optimizer_of(optim.AdamW(bias_correction=False, betas=(0.5, 0.75), eps=0.125, weight_decay=2)).graph.node
    assert attributes_of(node) == {"adam_mode": 1, "alpha": 0.5, "beta": 0.75, "correct_bias": 0, "epsilon": 0.125,
                                   "weight_decay": 2}


def test_D3_sgd_has_inputs_that_it_does_not_read():
    node, = optimizer_of(optim.SGD()).graph.node
    assert (node.op_type, node.domain) == ("SGDOptimizerV2", "com.microsoft")
    assert list(node.input) == ["learning_rate", "params", "gradients"] and len(node.attribute) == 0
    assert node.output[0] == "onnx::update_completed::1"


@pytest.mark.parametrize("kind", [optim.AdamW, optim.SGD])
def test_D4_a_clip_stands_before_the_optimizer(kind):
    clip, node = optimizer_of(kind(clip_grad=optim.ClipGradNorm(2.5))).graph.node
    assert (clip.op_type, clip.domain, list(clip.input)) == ("InplaceClipGradNorm", "com.microsoft", ["gradients"])
    assert attributes_of(clip) == {"max_norm": 2.5}
    assert clip.output[0] == "onnx::clip_grad_norm_output::1" and clip.output[0] in node.input


def test_D4_the_clip_scales_to_the_norm():
    x, t = np.ones((2, 4), np.float32), np.full((2, 3), 50, np.float32)
    moves = []
    for clip in (None, optim.ClipGradNorm(2.5)):
        made = artifacts.make_artifacts(mlp(), ALL, loss=loss.MSELoss(), optimizer=optim.SGD(clip_grad=clip))
        state = strop.CheckpointState.load_from_bytes(made.checkpoint)
        module = strop.Module(made.training_model, state)
        optimizer = strop.Optimizer(made.optimizer_model, module)
        optimizer.set_learning_rate(1.0)
        before = {name: state.parameters[name].data for name in ALL}
        module(x, t)
        optimizer.step()
        moves.append({name: before[name] - state.parameters[name].data for name in ALL})
    norm = np.sqrt(sum((move.astype(np.float64)**2).sum() for move in moves[0].values()))
    assert norm > 2.5
    for name in ALL:
        np.testing.assert_allclose(moves[1][name], moves[0][name] * 2.5 / (norm + 1e-6), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", [optim.AdamW, optim.SGD])
def test_D5_the_flag_is_one_bool(kind):
    output, = optimizer_of(kind()).graph.output
    assert output.type.tensor_type.elem_type == onnx.TensorProto.BOOL
    assert [d.dim_value for d in output.type.tensor_type.shape.dim] == [1]


class Halved(onnxblock.ForwardBlock):
    """SGD over the bare node, with a clip that is a function."""

    def build(self, parameters):
        add = self.base.graph.input.append
        add(helper.make_tensor_value_info("learning_rate", FLOAT, [1]))
        add(helper.make_tensor_value_info("step", INT64, [1]))
        for name in ("params", "gradients", "first_order_moments"):
            add(helper.make_tensor_sequence_value_info(name, parameters[0][0].data_type, None))
        return optim.optim.SGDOptimizer()("learning_rate", "params", optim.ClipGradNorm(0.5)("gradients"))


@pytest.mark.parametrize("block", [optim.AdamW(weight_decay=123), Halved()])
def test_D6_own_optimizers_are_honoured(tmp_path, block):
    artifacts.generate_artifacts(mlp(), ALL, loss=artifacts.LossType.MSELoss, optimizer=block,
                                 artifact_directory=tmp_path)
    node = onnx.load(tmp_path / "optimizer_model.onnx").graph.node[-1]
    if isinstance(block, optim.AdamW):
        assert attributes_of(node)["weight_decay"] == 123
    state = strop.CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = strop.Module(tmp_path / "training_model.onnx", state)
    optimizer = strop.Optimizer(tmp_path / "optimizer_model.onnx", module)
    before = state.parameters["fc1.weight"].data
    module(np.eye(4, dtype=np.float32), np.ones((4, 3), np.float32))
    optimizer.step()
    assert not np.array_equal(before, state.parameters["fc1.weight"].data)


def test_D7_an_optimizer_needs_a_trainable_parameter(tmp_path):
    for kind in (optim.AdamW, optim.SGD):
        with onnxblock.empty_base(), pytest.raises(strop.Error, match="no trainable parameter"):
            kind()(([], [tensor("w", np.zeros(3))]))
    for optimizer in (artifacts.OptimType.AdamW, optim.AdamW()):
        with pytest.raises(strop.Error, match="names no trainable parameter"):
            artifacts.make_artifacts(mlp(), [], loss=artifacts.LossType.MSELoss, optimizer=optimizer)


# --- Without onnx

def test_strop_does_not_import_onnx_and_says_what_needs_it(tmp_path):
    onnx.save(mlp(), tmp_path / "model.onnx")
    code = f"""
import sys
import strop, strop.artifacts
assert "onnx" not in sys.modules
sys.modules["onnx"] = None  # as if it were not installed
made = strop.artifacts.make_artifacts({str(tmp_path / "model.onnx")!r}, ["*"], loss=strop.artifacts.LossType.MSELoss,
                                      optimizer=strop.artifacts.OptimType.SGD)
assert made.loss_name == "onnx::reducemean_output::6"
try:
    import strop.onnxblock
except ImportError as error:
    print(error)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout
    assert "pip install 'strop[onnx]'" in printed
