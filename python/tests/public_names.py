# SPDX-License-Identifier: Apache-2.0
"""Prints, as JSON, the public names of onnxruntime.training and the parameters of what can be called."""

import importlib
import inspect
import json

MODULES = [
    "api",
    "api.checkpoint_state",
    "api.lr_scheduler",
    "api.module",
    "api.optimizer",
    "artifacts",
    "onnxblock",
    "onnxblock._graph_utils",
    "onnxblock.blocks",
    "onnxblock.checkpoint_utils",
    "onnxblock.loss",
    "onnxblock.loss.loss",
    "onnxblock.model_accessor",
    "onnxblock.onnxblock",
    "onnxblock.optim",
    "onnxblock.optim.optim",
]
SPECIAL = {"__call__", "__getitem__", "__setitem__", "__contains__", "__iter__", "__len__", "__repr__"}


def parameters(function):
    """[name, default or None] of each; None where Python does not know them."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[f"{p}".split(":")[0].split("=")[0], None if p.default is p.empty else repr(p.default)] for p in found]


def members(kind):
    """The methods and properties of a class; parameters of methods, and "()" for those of its constructor."""
    names = [name for name in dir(kind) if not name.startswith("_") or (name in SPECIAL and name in vars(kind))]
    methods = {name: parameters(member) if callable(member := getattr(kind, name)) else None for name in names}
    return {"()": parameters(kind), **methods}


def is_own(value):
    return getattr(value, "__module__", "").startswith(("onnxruntime.training", "strop"))


def names_of(module):
    result = {}
    for name, value in vars(module).items():
        if inspect.isclass(value) and is_own(value):
            result[name] = members(value)
        elif callable(value) and is_own(value) and (not name.startswith("_") or name.startswith("_Opt")):
            result[name] = parameters(value)
    return result


if __name__ == "__main__":
    print(json.dumps({name: names_of(importlib.import_module(f"onnxruntime.training.{name}")) for name in MODULES}))
