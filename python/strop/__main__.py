# SPDX-License-Identifier: Apache-2.0
"""The strop program: python -m strop VERB ..."""

import sys

from ._core import run_program


def main() -> int:
    """Runs the program with this process's arguments; returns its exit code."""
    sys.stdout.flush()
    return run_program(["strop", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
