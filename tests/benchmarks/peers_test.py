#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/peers makes of measurements. Nothing is measured, and no
engine need be installed."""

import ast
import contextlib
import io
import math
import os
import pathlib
import sys
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/peers"
sys.path.insert(0, str(PEERS))
sys.dont_write_bytecode = True

import report  # noqa: E402
import run  # noqa: E402
import suite  # noqa: E402


def measured(ms, losses=(2.0, 1.5)):
    return {"losses": list(losses), "median_ms": ms, "mean_ms": 2 * ms,
            "peak_mib": 10 * ms, "first_step_s": 0.5}


def rounds(*times, **more):
    return [measured(ms, **more) for ms in times]


class Losses(unittest.TestCase):
    def test_equal_ones_agree(self):
        self.assertIsNone(report.mismatch([2, 1.5], [2.0001, 1.504]))

    def test_each_step_is_compared(self):
        self.assertEqual(report.mismatch([2.1, 1.5], [2, 1.5]),
                         "the loss of step 1 is 2.1, not 2")
        self.assertEqual(report.mismatch([2, 1.6], [2, 1.5]),
                         "the loss of step 2 is 1.6, not 1.5")

    def test_nan_agrees_with_nothing(self):
        self.assertIsNotNone(report.mismatch([math.nan, 1], [2, 1]))
        self.assertIsNotNone(report.mismatch([2, 1], [2, math.nan]))


class Problems(unittest.TestCase):
    def test_the_first_that_ran_is_the_reference(self):
        found = report.problems({
            "ort": {0: [{"error": "no kernel"}]},
            "torch": {0: rounds(1, 2)},
            "strop": {0: [*rounds(1), measured(1, (2.0, 1.0))]},
        })
        self.assertEqual(found, {
            "ort": "no kernel",
            "strop": "the loss of step 2 is 1, not 1.5",
        })

    def test_every_setting_counts(self):
        found = report.problems({
            "torch": {1: rounds(1), 2: rounds(1)},
            "strop": {1: rounds(1), 2: rounds(1, losses=(3, 1))},
        })
        self.assertEqual(list(found), ["strop"])


class Tables(unittest.TestCase):
    def test_ratio_is_the_median_over_pairs(self):
        # 3, 2 and 10: a round in which both were slow changes nothing.
        self.assertEqual(
            report.paired_ratio(rounds(3, 200, 10), rounds(1, 100, 1),
                                "median_ms"), 3)

    def test_numbers_keep_three_digits(self):
        self.assertEqual([report.number(x) for x in
                          (0.0321, 1.234, 56.78, 1234.5)],
                         ["0.032", "1.23", "56.8", "1234"])

    def test_compare(self):
        text = report.markdown("compare", {
            "a": {"ort": {0: rounds(4)}, "strop": {0: rounds(2)}},
            "b": {"ort": {0: [{"error": "no kernel"}]},
                  "strop": {0: rounds(3)}},
        })
        self.assertIn("| a | 4.00 (2.00) | 2.00 |\n", text)
        self.assertIn("| b | - | 3.00 |\n", text)
        self.assertIn("| a | 40 / 0.50 | 20 / 0.50 |\n", text)
        self.assertTrue(text.endswith("- b, ort: no kernel\n"))

    def test_without_strop_there_are_no_ratios(self):
        for strop in ({}, {"strop": {0: [{"error": "no artifacts"}]}}):
            text = report.markdown(
                "compare", {"a": {"ort": {0: rounds(4)}, **strop}})
            self.assertIn("| a | 4.00 |", text)

    def test_two_settings(self):
        runs = {"strop": {1: rounds(6, 6), 2: rounds(3, 4)}}
        self.assertIn("| a | 6.00 → 3.50 (1.75) |\n",
                      report.markdown("scaling", {"a": runs}))
        self.assertIn("| a | 12.0 → 7.00 (0.58) |\n",
                      report.markdown("contention", {"a": runs}))


class CommandLine(unittest.TestCase):
    def refused(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as text:
            with self.assertRaises(SystemExit):
                run.parse(words)
        return text.getvalue()

    def test_defaults(self):
        args = run.parse(["compare"])
        self.assertEqual(args.threads, 1)
        self.assertNotIn("distilbert", args.models)
        self.assertIn("strop", args.engines)

    def test_wrong_words_are_refused(self):
        self.assertIn("jax", self.refused("compare", "--engines", "jax"))
        self.assertIn("only torch", self.refused(
            "compare", "--engines", "ort+compile"))
        self.assertIn("vgg", self.refused("compare", "--models", "vgg"))
        self.assertIn("cores", self.refused("compare", "--threads", "9999"))
        self.assertIn("--cores", self.refused("compare", "--cores", "9999"))
        self.assertIn("1 or more", self.refused("compare", "--rounds", "0"))
        self.assertIn("2 or more", self.refused("scaling", "--threads", "1"))

    def test_what_is_not_installed_is_left_out(self):
        with contextlib.redirect_stderr(io.StringIO()) as text:
            run.PACKAGES["nothing"] = "no_such_package"
            self.assertEqual(run.installed(["nothing"]), [])
            del run.PACKAGES["nothing"]
        self.assertIn("there is no package no_such_package", text.getvalue())

    def test_settings(self):
        self.assertEqual(
            [(s.threads, s.beside_busy_core)
             for s in run.settings_of("contention", 2)],
            [(1, False), (2, True)])

    def test_the_reason_of_a_failure_is_told(self):
        with self.assertRaisesRegex(RuntimeError, "^ValueError: no$"):
            run.run_python(["-c", "raise ValueError('no')"])
        with self.assertRaisesRegex(RuntimeError, "killed by SIGSEGV"):
            run.run_python(["-c", "import os; os.kill(os.getpid(), 11)"])
        with self.assertRaisesRegex(RuntimeError, "no result"):
            run.run_python(["-c", "while True: pass"], limit_s=0.2)

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "Linux only")
    def test_a_busy_core_is_freed_again(self):
        with run.busy_core(min(os.sched_getaffinity(0))) as process:
            self.assertIsNone(process.poll())
        self.assertIsNotNone(process.poll())


class Suite(unittest.TestCase):
    def test_every_case_has_its_network(self):
        # networks.py itself wants torch.
        tree = ast.parse((PEERS / "networks.py").read_text())
        (builders,) = (
            node.value for node in tree.body
            if isinstance(node, ast.Assign)
            and node.targets[0].id == "BUILDERS")
        self.assertEqual([key.value for key in builders.keys],
                         list(suite.CASES))

    def test_every_script_compiles(self):
        for path in PEERS.glob("*.py"):
            compile(path.read_text(), path, "exec")


if __name__ == "__main__":
    unittest.main()
