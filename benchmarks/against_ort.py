# SPDX-License-Identifier: Apache-2.0
"""Sets Strop's training step beside ONNX Runtime's, in turns in one run.

    python against_ort.py build/release/benchmarks/step_time DIR [DIR ...]
        [--batch N] [--threads 1 2] [--rounds 5] [--steps N]

Runs under a Python that has onnxruntime-training-cpu 1.19.2. Each round
starts a fresh process for each engine. Prints the best step of each engine
and the ratio Strop / ONNX Runtime, which is below 1 where Strop is faster.
"""

import argparse
import subprocess
import sys
import time
import types
from pathlib import Path


def ort_steps(folder, batch, threads, steps):
    """Best milliseconds of one ONNX Runtime step; run in its own process."""
    import numpy as np
    import onnx
    import onnxruntime

    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = package
    from onnxruntime.training import api

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    train = str(folder / "training_model.onnx")
    module = api.Module(train, state, session_options=options)
    optimizer = api.Optimizer(str(folder / "optimizer_model.onnx"), module)
    random = np.random.default_rng(1)
    inputs = []
    declared = {i.name: i for i in onnx.load(train).graph.input}
    for name in module.input_names():
        kind = declared[name].type.tensor_type
        dims = [d.dim_value or batch for d in kind.shape.dim]
        if kind.elem_type == onnx.TensorProto.FLOAT:
            inputs.append(random.random(dims, dtype=np.float32))
        else:
            inputs.append(random.integers(0, 10, dims))
    # OrtValues spare ONNX Runtime the conversion of arrays in each step.
    inputs = [onnxruntime.OrtValue.ortvalue_from_numpy(x) for x in inputs]
    best = float("inf")
    for _ in range(steps):
        start = time.perf_counter()
        module(*inputs)
        optimizer.step()
        module.lazy_reset_grad()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def strop_steps(program, folder, batch, threads, steps):
    command = [program, folder, "--batch", batch, "--threads", threads]
    command += ["--steps", steps]
    words = subprocess.run(
        [str(word) for word in command],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return float(words[words.index("best_ms") + 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ort-child", action="store_true")
    args = parser.parse_args()
    if args.ort_child:
        print(
            ort_steps(args.folders[0], args.batch, args.threads[0], args.steps)
        )
        return
    for folder in args.folders:
        for threads in args.threads:
            strop, ort = [], []
            for _ in range(args.rounds):
                strop.append(
                    strop_steps(
                        args.program, folder, args.batch, threads, args.steps
                    )
                )
                child = [sys.executable, __file__, str(args.program)]
                child += [str(folder), "--ort-child"]
                child += ["--batch", str(args.batch)]
                child += ["--threads", str(threads)]
                child += ["--steps", str(args.steps)]
                run = subprocess.run(
                    child, check=True, capture_output=True, text=True
                )
                ort.append(float(run.stdout.split()[-1]))
            print(
                f"{folder.name} batch {args.batch} threads {threads}: "
                f"strop {min(strop):.4f} ms, ort {min(ort):.4f} ms, "
                f"ratio {min(strop) / min(ort):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
