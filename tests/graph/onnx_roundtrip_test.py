#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the ONNX reader and writer against the onnx package.

Models go through build/.../onnx_roundtrip; what comes out is compared with
onnx's own view of it, and run by onnx's reference evaluator.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    onnx = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = pathlib.Path("/usr/share/libonnx-testdata")
TOOL = (pathlib.Path(os.environ.get("STROP_BUILD_DIR", ROOT / "build/dev")) /
        "tests/graph/onnx_roundtrip")

# An opset that the evaluator knows and that has the newest spelling of all
# that the models here use.
NEWEST = 18


def models_below(*folders):
    return sorted(p for f in folders for p in f.rglob("*.onnx"))


def run_tool(options, pairs):
    """Sends pairs of paths through the tool; one line of text for each."""
    lines = "".join(f"{a} {b}\n" for a, b in pairs)
    done = subprocess.run([TOOL, *options], input=lines, text=True,
                          capture_output=True, check=True)
    return done.stdout.splitlines()


def parse(path):
    model = onnx.ModelProto()
    model.ParseFromString(path.read_bytes())
    # value_info is a set; entries for names that are not in the graph (ORT
    # leaves such) move to its front.
    model.graph.value_info.sort(key=lambda info: info.name)
    return model


def passes_checker(path):
    try:
        onnx.checker.check_model(str(path))
        return True
    except Exception:  # whatever the checker throws counts as a refusal
        return False


def difference(a, b, place=""):
    """The first place where two messages differ."""
    for field in a.DESCRIPTOR.fields:
        here = f"{place}.{field.name}"
        x, y = getattr(a, field.name), getattr(b, field.name)
        if hasattr(x, "extend"):  # repeated
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


def tensor_of(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


@unittest.skipIf(onnx is None, "the onnx package is missing")
class OnnxRoundtrip(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name)

    def pairs(self, files):
        return [(p, self.out / f"{i}.onnx") for i, p in enumerate(files)]

    def check_same(self, files, options, checker):
        pairs = self.pairs(files)
        for (path, out), line in zip(pairs, run_tool(options, pairs),
                                     strict=True):
            with self.subTest(path=str(path)):
                self.assertEqual(line, "ok")
                before, after = parse(path), parse(out)
                if before != after:
                    self.fail(difference(before, after))
                if checker and passes_checker(path):
                    onnx.checker.check_model(str(out))

    def test_golden_models_come_back_the_same(self):
        files = models_below(ROOT / "tests/data/golden")
        self.assertGreater(len(files), 100)
        self.check_same(files, [], checker=True)
        self.check_same(files, ["--normalize"], checker=False)

    @unittest.skipUnless(TESTDATA.exists(), "libonnx-testdata is missing")
    def test_onnx_models_come_back_the_same(self):
        files = models_below(TESTDATA)
        self.assertGreaterEqual(len(files), 1072)
        self.check_same(files, [], checker=True)
        self.check_same(files, ["--normalize"], checker=False)

    @unittest.skipUnless(TESTDATA.exists(), "libonnx-testdata is missing")
    def test_the_newest_spelling_means_the_same(self):
        # Models of opset 6 and others with data: the evaluator runs what
        # they become in the newest spelling.
        files = [p for p in models_below(TESTDATA / "data")
                 if p.parts[-3].startswith("pytorch")]
        # Another meaning at the newest opset, so that a form does not apply.
        skipped = {"Softmax", "LogSoftmax", "Upsample", "Scan"}
        pairs, ran = self.pairs(files), 0
        lines = run_tool(["--normalize", "--newest", str(NEWEST)], pairs)
        for (path, out), line in zip(pairs, lines, strict=True):
            with self.subTest(path=str(path)):
                self.assertEqual(line, "ok")
                model = onnx.load(str(out))
                ops = {node.op_type for node in model.graph.node}
                data = path.parent / "test_data_set_0"
                if ops & skipped or not data.exists():
                    continue
                try:
                    inputs = [tensor_of(data / f"input_{i}.pb") for i in
                              range(len(list(data.glob("input_*.pb"))))]
                    wanted = tensor_of(data / "output_0.pb")
                except Exception:  # a list or an optional
                    continue
                names = [i.name for i in model.graph.input]
                got = ReferenceEvaluator(model).run(
                    None, dict(zip(names, inputs)))[0]
                np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)
                ran += 1
        self.assertGreater(ran, 80)

    def test_functions_are_inlined(self):
        model = onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["": 17, "local": 1]>
            main (float[N] x, bool c) => (float[N] a, float[N] b, float[N] d)
            {
                a, b = local.outer <factor = 3.0> (x, x)
                t = local.scale (x)
                d = If (c) <
                    then_branch = then () => (float[N] y)
                        { y = local.scale <alpha = 5.0> (t) },
                    else_branch = else () => (float[N] y)
                        { y = local.branchy (t, c) }
                >
            }
            <domain: "local", opset_import: ["": 17, "local": 1]>
            outer <factor> (p, q) => (r, p2)
            {
                t = local.scale <alpha: float = @factor> (p)
                r = Add (t, q)
                p2 = Identity (p)
            }
            <domain: "local", opset_import: ["": 17]>
            scale <alpha: float = 2.0> (v) => (t)
            {
                k = Constant <value_float: float = @alpha> ()
                t = Mul (v, k)
            }
            <domain: "local", opset_import: ["": 17, "local": 1]>
            branchy (v, c) => (t)
            {
                w = local.scale <alpha = 7.0> (v)
                t = If (c) <
                    then_branch = then () => (y) { y = Neg (w) },
                    else_branch = else () => (y) { z = Abs (w)
                                                   y = Add (z, v) }
                >
            }
        """)
        path, out = self.out / "in.onnx", self.out / "out.onnx"
        onnx.save(model, str(path))
        self.assertEqual(run_tool(["--inline"], [(path, out)]), ["ok"])
        inlined = onnx.load(str(out))
        self.assertEqual(len(inlined.functions), 0)
        onnx.checker.check_model(inlined)
        x = np.array([-1.5, 0.25, 4], np.float32)
        for c, d in ((True, 10 * x), (False, 14 * abs(x) + 2 * x)):
            got = ReferenceEvaluator(inlined).run(
                None, {"x": x, "c": np.array(c)})
            np.testing.assert_array_equal(got[0], 3 * x + x)
            np.testing.assert_array_equal(got[1], x)
            np.testing.assert_array_equal(got[2], d)

    def test_functions_that_call_themselves_are_refused(self):
        model = onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["": 17, "local": 1]>
            main (float[N] x) => (float[N] y) { y = local.f (x) }
            <domain: "local", opset_import: ["": 17, "local": 1]>
            f (v) => (t) { t = local.g (v) }
            <domain: "local", opset_import: ["": 17, "local": 1]>
            g (v) => (t) { t = local.f (v) }
        """)
        path = self.out / "in.onnx"
        onnx.save(model, str(path))
        line, = run_tool(["--inline"], [(path, self.out / "out.onnx")])
        self.assertIn("calls itself", line)
        # Kept as they are where nobody asks for inlining.
        self.check_same([path], [], checker=True)

    def test_functions_that_grow_without_bound_are_refused(self):
        functions = "\n".join(f"""
            <domain: "local", opset_import: ["": 17, "local": 1]>
            f{i} (v) => (t) {{
                u = local.f{i + 1} (v)
                t = local.f{i + 1} (u)
            }}""" for i in range(40))
        model = onnx.parser.parse_model(f"""
            <ir_version: 8, opset_import: ["": 17, "local": 1]>
            main (float[N] x) => (float[N] y) {{ y = local.f0 (x) }}
            {functions}
            <domain: "local", opset_import: ["": 17]>
            f40 (v) => (t) {{ t = Neg (v) }}
        """)
        path = self.out / "in.onnx"
        onnx.save(model, str(path))
        line, = run_tool(["--inline"], [(path, self.out / "out.onnx")])
        self.assertIn("more than", line)


if __name__ == "__main__":
    unittest.main()
