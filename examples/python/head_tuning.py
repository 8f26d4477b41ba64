#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Teaches a pretrained text encoder to sort requests, by training a new head alone.

    python head_tuning.py --model encoder.onnx --vocabulary vocab.txt
        [--data requests.tsv] [--epochs 6] [--output tuned.onnx] [--ask "is it going to rain?"]

The encoder is a bare ONNX model with last_hidden_state [batch, tokens, hidden]
as its first output: what minilm.py writes, or an exporter of your own. Each
line of the data is a label, a tab and a text; every fourth is held out.
"""
import argparse
import pathlib
import re
import unicodedata

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import strop

HERE = pathlib.Path(__file__).parent


class Tokenizer:
    """WordPiece (Wu et al. 2016) on text without capitals and accents."""

    def __init__(self, path):
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        self.ids = {piece: number for number, piece in enumerate(lines)}

    def pieces(self, word):
        """The longest known piece of the word, then that of the rest, and so on."""
        found, begin = [], 0
        while begin < len(word):
            parts = (("##" if begin else "") + word[begin:end] for end in range(len(word), begin, -1))
            part = next((part for part in parts if part in self.ids), None)
            if part is None:
                return ["[UNK]"]
            found.append(part)
            begin += len(part.removeprefix("##") if begin else part)
        return found

    def tokens(self, text):
        plain = unicodedata.normalize("NFD", text.lower())
        plain = "".join(c for c in plain if not unicodedata.combining(c))
        words = re.findall(r"[^\W_]+|[^\w\s]|_", plain)
        return ["[CLS]", *(piece for word in words for piece in self.pieces(word)), "[SEP]"]

    def __call__(self, texts):
        """The encoder's inputs, filled up to the longest text."""
        rows = [[self.ids[token] for token in self.tokens(text)] for text in texts]
        ids = np.full((len(rows), max(map(len, rows))), self.ids["[PAD]"])
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            ids[row, :len(tokens)] = tokens
            mask[row, :len(tokens)] = 1
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def add_head(model, classes):
    """Puts a classifier on the encoder's sentence vector: the mean of its tokens, scaled to length one."""
    graph = model.graph
    encoded = graph.output[0]
    hidden = encoded.type.tensor_type.shape.dim[2].dim_value
    graph.initializer.extend([
        numpy_helper.from_array(np.zeros((hidden, classes), np.float32), "head.weight"),
        numpy_helper.from_array(np.zeros(classes, np.float32), "head.bias"),
    ])
    graph.node.extend([
        helper.make_node("Cast", ["attention_mask"], ["head.mask"], to=TensorProto.FLOAT),
        helper.make_node("Einsum", ["head.mask", encoded.name], ["head.sum"], equation="bt,bth->bh"),
        helper.make_node("LpNormalization", ["head.sum"], ["head.vector"], axis=1, p=2),
        helper.make_node("Gemm", ["head.vector", "head.weight", "head.bias"], ["scores"]),
    ])
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", classes]))
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--data", type=pathlib.Path, default=HERE / "requests.tsv")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--output", default="tuned.onnx")
    parser.add_argument("--ask", nargs="*", default=[], help="requests to sort when trained")
    arguments = parser.parse_args()

    lines = arguments.data.read_text(encoding="utf-8").splitlines()
    names, texts = zip(*(line.split("\t") for line in lines))
    classes = sorted(set(names))
    labels = np.array([classes.index(name) for name in names])
    tokenizer = Tokenizer(arguments.vocabulary)
    model = add_head(onnx.load(arguments.model), len(classes))
    inputs = [value.name for value in model.graph.input]

    def samples(chosen):
        encoded = tokenizer([texts[i] for i in chosen])
        return {name: encoded[name] for name in inputs} | {"labels": labels[chosen]}

    held = np.arange(len(texts)) % 4 == 3
    training, test = samples(np.flatnonzero(~held)), samples(np.flatnonzero(held))
    result = strop.fit(model, training, loss="cross_entropy", validation=test, train=["head.*"],
                       epochs=arguments.epochs, batch_size=8, learning_rate=0.02)
    print("trained", *(name for name, parameter in result.state.parameters.items() if parameter.requires_grad))
    for epoch, (loss, accuracy) in enumerate(zip(result.history["loss"], result.history["val_accuracy"]), 1):
        print(f"epoch {epoch}: loss {loss:.4f}, held-out accuracy {accuracy:.4f}")
    result.export(arguments.output)

    if arguments.ask:
        encoded = tokenizer(arguments.ask)
        scores = result.predict(*(encoded[name] for name in inputs))
        for text, best in zip(arguments.ask, scores.argmax(1)):
            print(f"{classes[best]}: {text}")


if __name__ == "__main__":
    main()
