#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the build and uses it as a stranger would.

One small project finds Strop with CMake, the same source with pkg-config.
The example in README.md is compiled and run against the installed tree too.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["STROP_BUILD_DIR"])
PROJECT = pathlib.Path(__file__).resolve().parent / "installed"
CXX = os.environ.get("CXX", "c++")


def run(*command, cwd=None, **environment):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **{k: str(v) for k, v in environment.items()}})
    if done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stdout}")
    return done.stdout


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.scratch = pathlib.Path(cls.folder.name)
        cls.prefix = cls.scratch / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.library = next(cls.prefix.rglob("libstrop.so")).parent

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compile(self, source, program):
        flags = run("pkg-config", "--cflags", "--libs", "strop",
                    # The tree was moved from where strop.pc thinks it is.
                    f"--define-variable=prefix={self.prefix}",
                    PKG_CONFIG_PATH=self.library / "pkgconfig").split()
        run(CXX, source, "-o", program, *flags, cwd=self.scratch)

    def test_cmake_finds_it(self):
        build = self.scratch / "build"
        run("cmake", "-S", PROJECT, "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build)
        text = run(build / "user")
        self.assertIn("0 parameters", text)
        self.assertIn("float32 (2, 3)", text)

    def test_pkg_config_finds_it(self):
        program = self.scratch / "by_pkg_config"
        self.compile(PROJECT / "main.cc", program)
        self.assertIn("0 parameters",
                      run(program, LD_LIBRARY_PATH=self.library))

    def test_headers_of_ours_only(self):
        for header in (self.prefix / "include").rglob("*"):
            if header.is_file():
                self.assertEqual(header.parent.name, "strop")
                self.assertEqual(header.suffix, ".h")

    def test_program_runs(self):
        text = run(self.prefix / "bin" / "strop", "--help")
        for verb in ("check", "prepare", "train", "eval", "export",
                     "inspect"):
            self.assertIn(verb, text)

    def test_example_of_the_readme_trains(self):
        text = (ROOT / "README.md").read_text()
        example = re.search(r"```cpp\n(.*?)```", text, re.S)[1]
        self.assertLessEqual(len(example.splitlines()), 25)
        source = self.scratch / "example.cc"
        source.write_text(example)
        program = self.scratch / "example"
        self.compile(source, program)
        # The example trains in the folder it is started in.
        work = self.scratch / "work"
        run(self.prefix / "bin" / "strop", "prepare",
            ROOT / "examples/fashion_mnist/lenet.onnx",
            "--loss", "cross_entropy", "-o", work)
        lines = run(program, cwd=work,
                    LD_LIBRARY_PATH=self.library).splitlines()
        losses = [float(line.split()[-1]) for line in lines if "loss" in line]
        self.assertGreater(len(losses), 1)
        self.assertLess(losses[-1], losses[0])
        self.assertTrue((work / "model.onnx").is_file())


if __name__ == "__main__":
    unittest.main()
