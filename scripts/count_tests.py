#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "PASSED FAILED" for a JUnit file that ctest or pytest wrote.

A program of ctest counts as many tests as it says it ran: GoogleTest and
unittest print that. One that says nothing, or died before it could, counts as
one.
"""

import re
import sys
import xml.etree.ElementTree


def total(pattern, text):
    return sum(int(n) for n in re.findall(pattern, text, re.MULTILINE))


def counts(output, succeeded):
    failed = total(r"^\[  FAILED  \] (\d+) test", output)
    passed = total(r"^\[  PASSED  \] (\d+) test", output)
    ran = total(r"^Ran (\d+) tests?", output)  # unittest
    if ran:
        failed = total(r"^FAILED \(.*?failures=(\d+)", output) + total(
            r"^FAILED \(.*?errors=(\d+)", output)
        passed = ran - failed - total(r"skipped=(\d+)\)$", output)
    return (passed or 1, 0) if succeeded else (passed, failed or 1)


def of_pytest(suite):
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    return int(suite.get("tests")) - failed - int(suite.get("skipped")), failed


def of_ctest(suite):
    passed = failed = 0
    for case in suite.iter("testcase"):
        output = case.findtext("system-out") or ""
        ok, bad = counts(output, succeeded=case.get("status") == "run")
        passed += ok
        failed += bad
    return passed, failed


def main():
    passed = failed = 0
    for suite in xml.etree.ElementTree.parse(sys.argv[1]).iter("testsuite"):
        of = of_pytest if suite.get("name") == "pytest" else of_ctest
        ok, bad = of(suite)
        passed += ok
        failed += bad
    if passed + failed == 0:
        sys.exit("no test ran")
    print(passed, failed)


if __name__ == "__main__":
    main()
