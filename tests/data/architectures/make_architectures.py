# SPDX-License-Identifier: Apache-2.0
"""Makes the architecture cases: python make_architectures.py [NAME ...]

Each case is a small network of a well-known kind, written as a PyTorch module,
exported to ONNX in float32, and trained for a few steps by PyTorch itself in
float64. Needs torch (written with Debian's 1.13) and onnx 1.17. See README.md.
"""
import io
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper, version_converter
from torch import nn

import networks
from networks import CASES

FOLDER = Path(__file__).parent
STEPS = 4
LOSSES = {
    "cross_entropy": lambda y, target: F.cross_entropy(y, target),
    "mse": lambda y, target: F.mse_loss(y, target),
    "bce": lambda y, target: F.binary_cross_entropy_with_logits(y, target),
}


def export(case, module, example):
    """The ONNX model as PyTorch writes it, in the case's opset."""
    buffer = io.BytesIO()
    names = [name for name in case.feeds(1) if name not in ("labels", "target")]
    module.eval()
    torch.onnx.export(
        module, tuple(example[name] for name in names), buffer,
        input_names=names, output_names=["output"],
        dynamic_axes={name: {0: "batch"} for name in [*names, "output"]},
        opset_version=min(case.opset, 17), do_constant_folding=case.fold,
        # Keeps Conv and BatchNormalization apart.
        training=torch.onnx.TrainingMode.PRESERVE)
    model = onnx.load_from_string(buffer.getvalue())
    if case.opset > 17:
        model = version_converter.convert_version(model, case.opset)
    case.change(model)
    onnx.checker.check_model(model, full_check=True)
    return model


# --- What an initializer of the file is made of

def reordered(rows, gates):
    """Blocks of rows in another order of gates."""
    blocks = rows.chunk(len(gates))
    return torch.cat([blocks[i] for i in gates])


def recurrent_tensors(module, name, layer, tensors):
    """W, R and B of one layer as ONNX has them."""
    gates = [0, 3, 1, 2] if isinstance(module, nn.LSTM) else [1, 0, 2]

    def both(kind):
        suffixes = ["", "_reverse"] if module.bidirectional else [""]
        return [reordered(tensors[f"{name}.{kind}_l{layer}{s}"], gates)
                for s in suffixes]

    biases = zip(both("bias_ih"), both("bias_hh"))
    return [torch.stack(both("weight_ih")), torch.stack(both("weight_hh")),
            torch.stack([torch.cat(pair) for pair in biases])]


def candidates(module, tensors):
    """Everything that the exporter may have folded parameters into."""
    found = [t.T for t in tensors.values() if t.ndim == 2]
    for name, part in module.named_modules():
        if isinstance(part, (nn.LSTM, nn.GRU)):
            for layer in range(part.num_layers):
                found += recurrent_tensors(part, name, layer, tensors)
        if isinstance(part, nn.GroupNorm):
            own = [t for n, t in tensors.items() if n.startswith(name + ".")]
            found += own + [t[:, None, None] for t in own]
    return found


def initializer_map(model, module):
    """For each float initializer that is trained: a function from tensors by
    the module's names to the tensor in the file's form."""
    values = {n: p.detach() for n, p in module.named_parameters()}
    forms = candidates(module, values)
    found = {}
    for tensor in model.graph.initializer:
        if tensor.name in values:
            found[tensor.name] = lambda t, n=tensor.name: t[n]
            continue
        value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for i, form in enumerate(forms):
            if (value.ndim > 0 and form.shape == value.shape and
                    torch.equal(form, value.to(form.dtype))):
                found[tensor.name] = lambda t, i=i: candidates(module, t)[i]
                break
    return found


# --- Training

def forward(case, module, feeds):
    inputs = [v for n, v in feeds.items() if n not in ("labels", "target")]
    target = feeds.get("labels", feeds.get("target"))
    return LOSSES[case.loss](module(*inputs), target)


def train(case, module, batches, model):
    """Losses, gradients of the first step and parameters after the last."""
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    forms = initializer_map(model, module)
    expected = {"loss": [], "rate": np.float32(case.rate)}
    module.train()
    for step, feeds in enumerate(batches):
        loss = forward(case, module, feeds)
        gradients = dict(zip(trained, torch.autograd.grad(
            loss, list(trained.values()))))
        if step == 0:
            everything = {n: gradients.get(n, torch.zeros_like(p))
                          for n, p in module.named_parameters()}
            for name, form in forms.items():
                expected[f"grad/{name}"] = form(everything)
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter -= case.rate * gradients[name]
        expected["loss"].append(loss.item())
    values = {n: p.detach() for n, p in module.named_parameters()}
    for name, form in forms.items():
        expected[f"param/{name}"] = form(values).float()
    return {k: np.asarray(v) for k, v in expected.items()}


def age(module):
    """Normalizations as after some training. Equal tensors of a new module
    would be one initializer in the file."""
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, std=0.25)
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, std=0.25)
            nn.init.uniform_(part.running_var, 0.5, 1.5)


def to_double(feeds):
    return {n: v.double() if v.is_floating_point() else v
            for n, v in feeds.items()}


def make(name, case):
    torch.manual_seed(case.seed)
    module = case.build()
    age(module)
    batches = [case.feeds(n) for n in case.batches[:STEPS]]
    model = export(case, module, batches[0])
    model.producer_name, model.producer_version = "", ""
    for node in model.graph.node:
        node.doc_string = ""
    module.double()
    with networks.double_precision():
        expected = train(case, module, [to_double(b) for b in batches], model)
    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **{
        f"{n}/{step:04}": v.numpy()
        for step, feeds in enumerate(batches) for n, v in feeds.items()})
    np.savez(folder / "expected.npz", **expected)
    weights = sum(v.size for k, v in expected.items() if k.startswith("grad/"))
    print(f"{name}: opset {case.opset}, {len(model.graph.node)} nodes, "
          f"{weights} weights, losses {expected['loss']}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        make(chosen, CASES[chosen])
