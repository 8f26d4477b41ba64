# SPDX-License-Identifier: Apache-2.0
"""Makes the artifacts of the fixed-cost benchmark: an MLP 32-64-32-1.

    python make_mlp.py benchmarks/data/mlp_32_64_32_1

Needs onnxruntime-training-cpu 1.19.2, onnx 1.17 and numpy below 2. The
result is kept in the repository; this script is how it was made.
"""

import sys
import types
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def enter_training_package():
    """Makes onnxruntime.training importable without its torch dependency."""
    import onnxruntime

    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = package


def build_model(widths):
    random = np.random.default_rng(1)
    nodes, initializers = [], []
    value = "input"
    for i, (n_in, n_out) in enumerate(zip(widths, widths[1:]), start=1):
        bound = n_in**-0.5
        for name, shape in (("weight", (n_out, n_in)), ("bias", (n_out,))):
            data = random.uniform(-bound, bound, shape).astype(np.float32)
            initializers.append(numpy_helper.from_array(data, f"fc{i}.{name}"))
        last = i == len(widths) - 1
        out = "output" if last else f"fc{i}_out"
        nodes.append(
            helper.make_node(
                "Gemm",
                [value, f"fc{i}.weight", f"fc{i}.bias"],
                [out],
                name=f"fc{i}",
                transB=1,
            )
        )
        if not last:
            nodes.append(
                helper.make_node("Relu", [out], [f"relu{i}_out"], f"relu{i}")
            )
            value = f"relu{i}_out"
    graph = helper.make_graph(
        nodes,
        "mlp",
        [
            helper.make_tensor_value_info(
                "input", TensorProto.FLOAT, ["batch", widths[0]]
            )
        ],
        [
            helper.make_tensor_value_info(
                "output", TensorProto.FLOAT, ["batch", widths[-1]]
            )
        ],
        initializers,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8
    )


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    onnx.IR_VERSION = 10  # the newest that ONNX Runtime 1.19.2 reads
    enter_training_package()
    from onnxruntime.training import artifacts

    model = build_model([32, 64, 32, 1])
    artifacts.generate_artifacts(
        model,
        requires_grad=[t.name for t in model.graph.initializer],
        loss=artifacts.LossType.MSELoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(folder),
    )


if __name__ == "__main__":
    main()
