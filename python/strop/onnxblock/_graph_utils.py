# SPDX-License-Identifier: Apache-2.0
"""What blocks ask of a model and add to it. Own blocks may use these functions as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .. import _core
from .._errors import InvalidGraphError, UnknownNameError
from .._generated_names import generate_name
from ._onnx import onnx
from ._protos import without_weights


def generate_graph_name(token: str) -> str:
    """A name that no other call in this process returns: onnx::<token>::<n>."""
    return generate_name(token)


def node_arg_exists(model: onnx.ModelProto, node_arg_name: str) -> bool:
    """Whether a node reads or makes the tensor, or it is an input of the model."""
    graph = model.graph
    return any(node_arg_name in node.input or node_arg_name in node.output for node in graph.node) or any(
        value.name == node_arg_name for value in graph.input)


def get_input_from_input_name(onnx_model: onnx.ModelProto, input_name: str) -> onnx.ValueInfoProto:
    """The input of that name; KeyError if there is none."""
    return _named(onnx_model.graph.input, input_name, "input")


def get_output_from_output_name(onnx_model: onnx.ModelProto, output_name: str) -> onnx.ValueInfoProto:
    """The output of that name; KeyError if there is none."""
    return _named(onnx_model.graph.output, output_name, "output")


def _named(values: Iterable[onnx.ValueInfoProto], name: str, kind: str) -> onnx.ValueInfoProto:
    for value in values:
        if value.name == name:
            return value
    names = ", ".join(value.name for value in values)
    raise UnknownNameError(f'the model has no {kind} "{name}"; its {kind}s are {names}')


class Inferred(NamedTuple):
    """What infer finds: types of tensors by name, faults of nodes, and operators that the core does not have."""

    types: dict[str, onnx.ValueInfoProto]
    faults: list[str]
    unknown: list[str]


def infer(model: onnx.ModelProto) -> Inferred:
    """What can be told of a model without running it."""
    types, faults, unknown = _core.infer_types(without_weights(model).SerializeToString())
    infos = {}
    for name, is_list, element, dims in types:
        make = onnx.helper.make_tensor_sequence_value_info if is_list else onnx.helper.make_tensor_value_info
        infos[name] = make(name, element, dims)
    for domain, op, text in unknown:
        if domain == "" and not onnx.defs.has(op):
            faults.append(text)
    return Inferred(infos, faults, [text for _, _, text in unknown])


def check(model: onnx.ModelProto, block: str) -> None:
    """Raises ValueError where the model, after `block` was built, is malformed."""
    faults = infer(model).faults
    if faults:
        raise InvalidGraphError(f"after block {block}: " + "; ".join(faults))


def type_of(model: onnx.ModelProto, name: str) -> onnx.ValueInfoProto:
    """The type of any tensor of the model; KeyError where it is not known."""
    value: onnx.ValueInfoProto
    for value in (*model.graph.input, *model.graph.output):
        if value.name == name and value.type.WhichOneof("value"):
            return value
    inferred = infer(model)
    if name not in inferred.types:
        raise _unknown_type(f'the model has no tensor "{name}" of known type', inferred)
    known: onnx.ValueInfoProto = inferred.types[name]
    return known


def _unknown_type(text: str, inferred: Inferred) -> UnknownNameError:
    return UnknownNameError("; ".join([text, *inferred.unknown]))


def element_type_of(model: onnx.ModelProto, name: str) -> int:
    """The TensorProto.DataType of a tensor's elements; FLOAT where it is not known."""
    inferred = infer(model).types.get(name)
    return inferred.type.tensor_type.elem_type if inferred is not None else onnx.TensorProto.FLOAT


def opset_of(model: onnx.ModelProto, domain: str = "") -> int:
    """The version of the domain that the model imports; 0 if it does not."""
    aliases = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
    return next((entry.version for entry in model.opset_import if entry.domain in aliases), 0)


def add_import(model: onnx.ModelProto, domain: str, version: int) -> None:
    """Imports the domain unless the model does already."""
    if opset_of(model, domain) == 0:
        model.opset_import.add(domain=domain, version=version)


def register_graph_outputs(model: onnx.ModelProto, output_names: str | Sequence[str]) -> None:
    """Makes exactly these tensors the outputs of the model, in this order.

    Each must be made by a node and have a known type, else KeyError is raised.
    """
    names = [output_names] if isinstance(output_names, str) else list(output_names)
    inferred = infer(model)
    infos = inferred.types
    # What the model says itself knows its symbols.
    for value in (*model.graph.value_info, *model.graph.output):
        if value.type.WhichOneof("value"):
            infos[value.name] = value
    made = {name for node in model.graph.node for name in node.output}
    outputs = []
    for name in dict.fromkeys(names):
        if name not in made or name not in infos:
            text = f'"{name}" cannot be an output: no node makes a tensor of that name and known type'
            raise _unknown_type(text, inferred)
        output = onnx.ValueInfoProto()
        output.CopyFrom(infos[name])
        outputs.append(output)
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    others = [value for value in model.graph.value_info if value.name not in names]
    del model.graph.value_info[:]
    model.graph.value_info.extend(others)


def add_value_infos(model: onnx.ModelProto) -> None:
    """Writes down the types that can be inferred."""
    graph = model.graph
    known = {value.name for values in (graph.input, graph.output, graph.value_info) for value in values}
    known.update(tensor.name for tensor in graph.initializer)
    graph.value_info.extend(info for name, info in infer(model).types.items() if name not in known)
