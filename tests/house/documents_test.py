#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documents against the tree: what they point to exists."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"),
                    *(ROOT / "examples").rglob("*.md"),
                    *(ROOT / "benchmarks").rglob("*.md")])

LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
# `src/ops/op_list.inc`, but not `src/ops/<name>.cc` or a glob.
PATH = re.compile(
    r"`((?:\.ci|benchmarks|cmake|docs|examples|include|schema|scripts|src|"
    r"tests|tools)/[\w./-]+)[` ]")


class Documents(unittest.TestCase):
    def test_links_and_paths_exist(self):
        count, missing = 0, []
        for document in DOCUMENTS:
            text = document.read_text()
            targets = [(document.parent, link) for link in LINK.findall(text)]
            targets += [(ROOT, path) for path in PATH.findall(text)]
            for folder, target in targets:
                count += 1
                if not (folder / target).exists():
                    missing.append(
                        f"{document.relative_to(ROOT)}: {target}")
        self.assertGreater(count, 20)
        self.assertEqual(missing, [])

    def test_readme_has_the_floors_of_the_node_tests(self):
        source = (ROOT / "tests/ops/onnx_node_test.cc").read_text()
        floors = re.findall(r"constexpr Floor k\w+ = \{(\d+), (\d+)\};", source)
        stated = re.findall(r"\| (\d+) of (\d+) \|",
                            (ROOT / "README.md").read_text())
        self.assertEqual(len(floors), 2)
        self.assertEqual(stated, floors)

    def test_every_source_names_its_license(self):
        missing = []
        for folder in ("include", "src", "tests", "tools", "benchmarks",
                       "scripts", "examples"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix not in (".h", ".cc", ".inc", ".fbs", ".py"):
                    continue
                head = path.read_text().splitlines()[:3]
                if "data/golden" in path.as_posix():
                    continue
                if not any("SPDX-License-Identifier: Apache-2.0" in line
                           for line in head):
                    missing.append(str(path.relative_to(ROOT)))
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
