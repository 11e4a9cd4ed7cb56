"""Writes what 16 bits change in the tasks of the trained models into docs/verification_fitting.md,
between its markers; the models themselves are in docs/parity.md (tools/parity_table.py).
Run after a build of test_runtime: python3 tools/precision_table.py [--dry]
Models: ../shared/models/trained, which is not in the repository (SKIP if absent).
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/verification_fitting.md"
TASKS = ROOT / "build/release/tests/test_runtime"
BEGIN, END = "<!-- begin: tools/precision_table.py -->", "<!-- end: tools/precision_table.py -->"
HEAD = """| model | mode | result | first ten items changed |
|---|---|---|---|"""


def tasks():
    """The lines that tests/runtime/trained_test.cpp prints; empty where the models are absent."""
    filters = "--gtest_filter=*NanoGptSort*:IclrecBeauty*"
    done = subprocess.run([TASKS, filters], capture_output=True, text=True, cwd=ROOT)
    return [line for line in done.stdout.splitlines() if line.startswith("| ")]


def main(arguments):
    done = tasks()
    print("\n".join(done) if done else "SKIP: the tasks of the trained models")
    if done and "--dry" not in arguments:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + "\n".join([BEGIN, HEAD, *done, END]) + rest.split(END)[1])


if __name__ == "__main__":
    main(sys.argv[1:])
