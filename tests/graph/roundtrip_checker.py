# SPDX-License-Identifier: Apache-2.0
"""Reads and writes models with onnx_roundtrip and compares with onnx.

roundtrip_checker.py ONNX_ROUNDTRIP FOLDER...: every *.onnx file below the
folders must come back field by field the same, with the spelling of older
opsets normalized and not, and pass onnx.checker wherever the input does.
"""

import pathlib
import subprocess
import sys
import tempfile

import onnx


def passes_checker(path):
    try:
        onnx.checker.check_model(str(path))
        return True
    except Exception:  # whatever the checker throws counts as a refusal
        return False


def parse(path):
    model = onnx.ModelProto()
    model.ParseFromString(path.read_bytes())
    # value_info is a set; entries for names that are not in the graph (ORT
    # leaves such) move to its front.
    model.graph.value_info.sort(key=lambda info: info.name)
    return model


def difference(a, b, place=""):
    """The first place where two messages differ."""
    for field in a.DESCRIPTOR.fields:
        here = f"{place}.{field.name}"
        x, y = getattr(a, field.name), getattr(b, field.name)
        if hasattr(x, "extend"):
            if len(x) != len(y):
                return f"{here}: {len(x)} became {len(y)}"
            pairs = list(zip(x, y))
        else:
            if a.HasField(field.name) != b.HasField(field.name):
                return f"{here}: there {a.HasField(field.name)}"
            pairs = [(x, y)]
        for i, (one, other) in enumerate(pairs):
            if field.message_type is not None:
                if one != other:
                    return difference(one, other, f"{here}[{i}]")
            elif one != other and not (one != one and other != other):
                return f"{here}[{i}]: {one!r:.80} became {other!r:.80}"
    return f"{place}: unknown fields"


def run(tool, options, pairs):
    lines = "".join(f"{a} {b}\n" for a, b in pairs)
    done = subprocess.run([tool, *options], input=lines, text=True,
                          capture_output=True, check=True)
    return done.stdout.splitlines()


def main(tool, *folders):
    files = sorted(p for f in folders for p in pathlib.Path(f).rglob("*.onnx"))
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        for options in ([], ["--normalize"]):
            pairs = [(path, pathlib.Path(temporary) / f"{i}.onnx")
                     for i, path in enumerate(files)]
            for (path, out), line in zip(pairs, run(tool, options, pairs)):
                text = None
                if line != "ok":
                    text = line
                elif parse(path) != parse(out):
                    text = difference(parse(path), parse(out))
                elif not options and passes_checker(path) and \
                        not passes_checker(out):
                    text = "onnx.checker refuses what was written"
                if text is not None:
                    failures += 1
                    print(f"{path} {' '.join(options)}: {text}")
    print(f"{len(files)} models, {failures} failures")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
