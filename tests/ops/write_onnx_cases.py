#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the node test cases of the installed `onnx` package into a folder.

    write_onnx_cases.py FOLDER

makes FOLDER/onnx-VERSION/NAME/{model.onnx, test_data_set_0/*.pb} for each
case, once for each version of the package, in the layout of Debian's
libonnx-testdata. FOLDER/VERSION.txt names the version whose cases were asked
for last. Without the package nothing is written, and a message says so.
"""

import os
import pathlib
import shutil
import sys
import warnings

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as error:
    print(f"no node cases of newer opsets: {error}")
    sys.exit(0)


def encode(value, name):
    """A case's input or output as a TensorProto; None if it is no tensor."""
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return numpy_helper.from_array(array, name).SerializeToString()
    return None


def write_values(folder, kind, infos, values):
    for index, (info, value) in enumerate(zip(infos, values)):
        # The test skips the cases that hold sequences and optionals by the
        # types in the model; their values are not needed.
        encoded = encode(value, info.name)
        if encoded is not None:
            (folder / f"{kind}_{index}.pb").write_bytes(encoded)


def write_case(case, folder):
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for index, (inputs, outputs) in enumerate(case.data_sets):
        data_set = folder / f"test_data_set_{index}"
        data_set.mkdir()
        write_values(data_set, "input", case.model.graph.input, inputs)
        write_values(data_set, "output", case.model.graph.output, outputs)


def main():
    root = pathlib.Path(sys.argv[1])
    target = root / f"onnx-{onnx.__version__}"
    if not target.exists():
        # Under another name first: a folder of that name is always whole.
        part = root / f"part-{os.getpid()}"
        part.mkdir(parents=True)
        from onnx.backend.test.case.node import collect_testcases
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = collect_testcases(None)
        for case in cases:
            write_case(case, part / case.name)
        try:
            part.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(part)
    (root / "VERSION.txt").write_text(onnx.__version__)
    print(f"node cases of onnx {onnx.__version__} are in {target}")


if __name__ == "__main__":
    main()
