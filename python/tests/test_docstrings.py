# SPDX-License-Identifier: Apache-2.0
"""Everything public has a docstring, what users begin with has an example, and all examples run."""
import dataclasses
import doctest
import enum
import importlib
import inspect
import pathlib

import numpy as np
import pytest

import strop
from conftest import DATA

PACKAGE = pathlib.Path(strop.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py") if path.name != "__main__.py")
PUBLIC = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]
# What of the extension users see; the last two are what a state gives.
CORE = [(f"strop.{name}", getattr(strop._core, name))
        for name in ["CheckpointState", "Function", "LinearLRScheduler", "Module", "Optimizer", "Parameter",
                     "SessionOptions", "Parameters", "Properties"]]
SPECIAL = {"__call__", "__getitem__", "__setitem__", "__contains__", "__iter__", "__len__"}


def imported(name):
    if name.startswith(("strop.onnxblock", "strop._block_artifacts")):
        pytest.importorskip("onnx", reason=f"{name} needs the package onnx, which is not installed")
    return importlib.import_module(name)


def docstring(thing):
    """Without the signature that nanobind puts in front."""
    if isinstance(thing, property):
        thing = thing.fget
    thing = getattr(thing, "__func__", thing)
    signatures = getattr(thing, "__nb_signature__", None)
    return signatures[0][1] if signatures else thing.__doc__


def defined_in(module):
    """(name, class or function) of what the module defines for others."""
    for name, value in vars(module).items():
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__:
            yield f"{module.__name__}.{name}", value


def offered_by(module):
    """(name, class or function) of what the module lists, or else defines."""
    if not hasattr(module, "__all__"):
        return list(defined_in(module))
    listed = [(f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__]
    return [(name, value) for name, value in listed if callable(value)]


def members(kind):
    """(name, method or property) that users of the class see."""
    for name, value in vars(kind).items():
        if (name in SPECIAL or not name.startswith("_")) and (
                isinstance(value, (property, staticmethod, classmethod)) or callable(value)):
            yield name, value


def with_members(things):
    """The same, with the members of classes and of the private bases that these share."""
    for name, value in things:
        yield name, value
        if isinstance(value, type) and not issubclass(value, (BaseException, enum.Enum)):
            bases = [base for base in inspect.getmro(value) if base.__module__.startswith("strop")]
            found = {member: thing for base in reversed(bases) for member, thing in members(base)}
            yield from ((f"{name}.{member}", thing) for member, thing in found.items())


def fields(kind):
    """The names of what objects hold, or an enumeration lists."""
    if issubclass(kind, enum.Enum):
        return list(kind.__members__)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]
    return list(getattr(kind, "_fields", []))


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_has_a_docstring(name):
    module = imported(name)
    assert module.__doc__
    things = offered_by(module)
    if module is strop:
        things += CORE
    found = dict(with_members(things))
    assert [name for name, thing in found.items() if not docstring(thing)] == []
    untold = [f"{name}.{field}" for name, kind in things if isinstance(kind, type)
              for field in fields(kind) if field not in kind.__doc__]
    assert untold == []


def test_what_the_walk_sees():
    assert {name for name, kind in offered_by(strop) if kind.__module__ == "strop._core"} <= dict(CORE).keys()
    found = dict(with_members(CORE)).keys()
    assert {"strop.Module.__call__", "strop.Module.training", "strop.Optimizer.step_count", "strop.Parameter.data",
            "strop.CheckpointState.load_checkpoint", "strop.Parameters.keys", "strop.Function.input_names",
            "strop.SessionOptions.max_plans", "strop.LinearLRScheduler.step"} <= found
    assert docstring(strop.Module.train).startswith("Makes")
    assert not docstring(strop.Parameter.__repr__)


@pytest.mark.parametrize("name", ["strop", "strop.artifacts", "strop.onnxblock", "strop.onnxblock.blocks",
                                  "strop.onnxblock.loss", "strop.onnxblock.optim"])
def test_what_users_begin_with_has_an_example(name):
    module = imported(name)
    things = dict(offered_by(module))
    if name == "strop.onnxblock.blocks":  # its functions are for blocks of one's own
        things = {name: thing for name, thing in things.items() if isinstance(thing, type)}
    assert len(things) > 2
    assert [name for name, thing in things.items() if ">>> " not in thing.__doc__] == []


# --- Examples


@pytest.fixture(scope="session")
def small_artifacts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifacts")
    (folder / "model.onnx").write_bytes((DATA / "golden/mse_regression/model.onnx").read_bytes())
    strop.artifacts.generate_artifacts(folder / "model.onnx", ["*"], loss=strop.artifacts.LossType.CrossEntropyLoss,
                                       optimizer=strop.artifacts.OptimType.AdamW, artifact_directory=folder)
    return folder


@pytest.fixture
def names(small_artifacts, tmp_path, monkeypatch):
    """What an example may use: these names, and the files of the working directory."""
    for path in small_artifacts.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    x, labels = np.random.default_rng(0).random((8, 6), np.float32), np.zeros(8, np.int64)
    found = {"__name__": "__main__", "np": np, "strop": strop, "x": x, "labels": labels}
    try:
        import onnx
        from strop import onnxblock
    except ImportError:
        return found
    return {**found, "onnx": onnx, "onnxblock": onnxblock, "model": onnx.load("model.onnx")}


def run_examples(docstrings, names):
    """Runs the examples of {name: docstring}; returns how many there are."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    for name, text in docstrings.items():
        runner.run(parser.get_doctest(inspect.cleandoc(text or ""), dict(names), name, None, 0))
    done = runner.summarize()
    assert done.failed == 0, "the output tells which"
    return done.attempted


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name, names):
    module = imported(name)
    things = with_members(defined_in(module))
    run_examples({name: module.__doc__, **{name: docstring(thing) for name, thing in things}}, names)


def test_the_examples_of_the_extension_run(names):
    assert run_examples({name: docstring(thing) for name, thing in with_members(CORE)}, names) > 30


def test_an_example_that_is_wrong_is_found():
    with pytest.raises(AssertionError, match="output"):
        run_examples({"wrong": "Adds.\n\n>>> 1 + 1\n3\n"}, {})
