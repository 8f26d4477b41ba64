# SPDX-License-Identifier: Apache-2.0
"""The models of the suite and the files that engines load.

    python suite.py network FOLDER MODEL           needs torch and onnx
    python suite.py artifacts FOLDER MODEL ENGINE  needs onnx and that engine

run.py calls both. FOLDER/MODEL then holds network.pt, the PyTorch module, and
model.onnx, the same network for inference; trainable.json, the names of what
is trained; and a folder of artifacts for each engine that wants them.
"""

import copy
import importlib
import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

# LayerNormalization (17) has no gradient in ONNX Runtime 1.19.2.
OPSET = 15
# The newest that ONNX Runtime 1.19.2 reads.
IR_VERSION = 10


@dataclass(frozen=True)
class Values:
    """Random numbers: whole ones below `kind`, or "normal" or "binary"."""

    shape: tuple
    kind: object

    def draw(self, random):
        if self.kind == "normal":
            return random.standard_normal(self.shape, dtype="float32")
        if self.kind == "binary":
            return random.integers(0, 2, self.shape).astype("float32")
        return random.integers(0, self.kind, self.shape)


@dataclass(frozen=True)
class Case:
    input: Values
    label: Values
    loss: str
    slow: bool = False  # left out where no models are named


def classify(input_shape, classes, positions=None, words="normal", slow=False):
    """`positions` labels, one for each of the batch if not given."""
    label = Values((positions or input_shape[0],), classes)
    return Case(Values(input_shape, words), label, "CrossEntropyLoss", slow)


def regress(batch):
    return Case(
        Values((batch, 32), "normal"), Values((batch, 1), "normal"), "MSELoss"
    )


CASES = {
    "mlp_tab_b1": regress(1),
    "mlp_tab_b32": regress(32),
    "mlp_mnist": classify((64, 784), 10),
    "lenet5": classify((64, 1, 28, 28), 10),
    "ds_cnn": classify((32, 1, 49, 10), 12),
    "resnet20": classify((32, 3, 32, 32), 10),
    "mobilenet_v2": classify((8, 3, 224, 224), 1000),
    "mobilenet_v2_head": classify((8, 3, 224, 224), 10),
    "resnet18": classify((8, 3, 224, 224), 1000),
    "unet": Case(
        Values((4, 1, 128, 128), "normal"),
        Values((4, 1, 128, 128), "binary"),
        "BCEWithLogitsLoss",
    ),
    "lstm": classify((64, 32), 128, positions=64 * 32, words=128),
    "bert_tiny": classify((8, 128), 2, words=30522),
    "bert_mini": classify((8, 128), 2, words=30522),
    "distilbert": classify((8, 128), 2, words=30522, slow=True),
    "gpt_10m": classify((8, 256), 65, positions=8 * 256, words=65),
}


def batch_of(case):
    """Inputs and labels, the same for every engine."""
    import numpy as np

    random = np.random.default_rng(0)
    return case.input.draw(random), case.label.draw(random)


def trainable_weights(model, network):
    """Names of the initializers that hold what PyTorch trains. The exporter
    gives some other names than the module has, and other shapes."""
    from onnx import TensorProto

    frozen = {n for n, p in network.named_parameters() if not p.requires_grad}
    frozen |= {name for name, _ in network.named_buffers()}
    weights = {
        weight.name: weight
        for weight in model.graph.initializer
        if weight.data_type == TensorProto.FLOAT and weight.name not in frozen
    }
    trained = [p.numel() for p in network.parameters() if p.requires_grad]
    count = 0
    for weight in weights.values():
        size = 1
        for dim in weight.dims:
            size *= dim
        count += size
    if count != sum(trained):
        raise RuntimeError(f"{count} numbers in {list(weights)}")
    return list(weights)


def make_network(folder, name):
    import networks
    import onnx
    import torch

    warnings.filterwarnings("ignore")  # the exporter's, of what it traces
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    network = networks.BUILDERS[name]()
    torch.save(network, folder / "network.pt")
    case = CASES[name]
    example = torch.from_numpy(batch_of(case)[0])
    torch.onnx.export(
        copy.deepcopy(network),  # tracing changes running statistics
        (example,),
        str(folder / "model.onnx"),
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        # LSTM weights are put into ONNX's order by nodes that must fold.
        do_constant_folding=name == "lstm",
        opset_version=OPSET,
        input_names=["input"],
        output_names=["output"],
    )
    names = trainable_weights(onnx.load(folder / "model.onnx"), network)
    # Last: a folder with this file is whole.
    (folder / "trainable.json").write_text(json.dumps(names, indent=1) + "\n")


def use_adamw_of_pytorch(path):
    """generate_artifacts knows one AdamW only: that of Hugging Face, with an
    epsilon that shows in the second loss, and without weight decay."""
    import onnx

    model = onnx.load(path)
    # ONNX Runtime's maker writes what the onnx package knows, its runtime
    # reads no newer one than this.
    model.ir_version = min(model.ir_version, IR_VERSION)
    for node in model.graph.node:
        if node.op_type == "AdamWOptimizer":
            attributes = {a.name: a for a in node.attribute}
            attributes["adam_mode"].i = 0
            attributes["correct_bias"].i = 1
            attributes["epsilon"].f = 1e-8
            attributes["weight_decay"].f = 1e-2
    onnx.save(model, path)


def make_artifacts(folder, name, engine):
    """Frozen weights stay constants of the graph, which is what suits ONNX
    Runtime best: it packs them once."""
    import onnx

    packages = {"strop": "strop", "ort": "onnxruntime.training"}
    artifacts = importlib.import_module(packages[engine] + ".artifacts")
    out = folder / engine
    out.mkdir(exist_ok=True)
    artifacts.generate_artifacts(
        onnx.load(folder / "model.onnx"),
        requires_grad=json.loads((folder / "trainable.json").read_text()),
        loss=artifacts.LossType[CASES[name].loss],
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(out),
    )
    use_adamw_of_pytorch(out / "optimizer_model.onnx")


def main():
    what, folder, name, *engine = sys.argv[1:]
    makers = {"network": make_network, "artifacts": make_artifacts}
    makers[what](Path(folder) / name, name, *engine)


if __name__ == "__main__":
    main()
