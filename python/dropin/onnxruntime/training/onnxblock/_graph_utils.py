# SPDX-License-Identifier: Apache-2.0
"""Helpers that samples take for nodes of their own."""

from strop.onnxblock._graph_utils import (
    generate_graph_name,
    get_input_from_input_name,
    get_output_from_output_name,
    node_arg_exists,
    register_graph_outputs,
)

__all__ = [
    "generate_graph_name",
    "get_input_from_input_name",
    "get_output_from_output_name",
    "node_arg_exists",
    "register_graph_outputs",
]
