#!/usr/bin/env python3
"""The backend tests of the package onnx (node, simple, operator and pytorch-converted models) on
vernier.backend: which pass, which are refused and why, held against onnx_suite.tsv.

Usage: onnx_suite.py [--write]      with the package on PYTHONPATH; run.py runs it as a pytest test too
--write makes onnx_suite.tsv anew. Models that the tests would download are left out.
"""
import collections
import pathlib
import re
import sys
import unittest
import warnings

import vernier
import vernier.backend
from onnx.backend.test import BackendTest

LIST = pathlib.Path(__file__).with_suffix(".tsv")
NUMERIC_NOT = ("seq(", "optional", "string")


def outcome_of(case):
    """"pass", "refused: why" or "FAILS: why" of one test."""
    result = unittest.TestResult()
    case.run(result)
    if result.skipped:
        return None
    if result.wasSuccessful():
        return "pass"
    text = (result.errors + result.failures)[0][1].strip()
    if "vernier.Error: " not in text:
        return "FAILS: " + re.sub(r"\s+", " ", text.splitlines()[-1])[:120]
    why = re.sub(r"'[^']*/model\.onnx'", "MODEL", text.split("vernier.Error: ", 1)[1])
    why = re.sub(r"cannot import MODEL: (1 node is not supported: )?", "", re.sub(r"\s+", " ", why))
    return "refused: " + re.split(r" Operators of other| Export the model|\. Expected", why)[0][:120]


class Ways:
    """How the engines of the tests run: counts of passing node tests by way."""
    KERNELS, EVALUATOR, FOLDED = "kernels alone", "the FP64 evaluator", "no step (constants)"

    def __init__(self):
        self.counts = collections.Counter()
        self._reports = []
        self._build = vernier.backend.build

    def __enter__(self):
        def build(*args, **kwargs):
            report = self._build(*args, **kwargs)
            self._reports.append(report)
            return report
        vernier.backend.build = build
        return self

    def __exit__(self, *_):
        vernier.backend.build = self._build

    def note(self, passed):
        """Of one test, whose engines were built since the last call."""
        if passed and self._reports:
            on_evaluator = any(report["fallback_steps"] for report in self._reports)
            steps = any(report["steps"] for report in self._reports)
            self.counts[self.EVALUATOR if on_evaluator else self.KERNELS if steps else self.FOLDED] += 1
        self._reports.clear()


def outcomes(ways=None):
    """{name of a test: its outcome}"""
    warnings.simplefilter("ignore")
    found = {}
    for kind, cases in BackendTest(vernier.backend, "vernier").test_cases.items():
        if "RealModel" in kind:
            continue  # they download the models
        for name in dir(cases):
            if name.startswith("test_") and name.endswith("_cpu"):
                outcome = outcome_of(cases(name))
                if ways and "Node" in kind:
                    ways.note(outcome == "pass")
                if outcome is not None:
                    found[f"{kind.removeprefix('OnnxBackend')}.{name.removesuffix('_cpu')}"] = outcome
    return found


def totals(found):
    """A line for each kind: how many of how many pass."""
    counts = collections.Counter((name.split(".")[0], outcome.split(":")[0])
                                 for name, outcome in found.items())
    lines = []
    for kind in sorted({kind for kind, _ in counts}):
        total = sum(n for (k, _), n in counts.items() if k == kind)
        lines.append(f"{kind}: {counts[kind, 'pass']} of {total} pass, "
                     f"{counts[kind, 'refused']} refused, {counts[kind, 'FAILS']} fail")
    return lines


def stored():
    return dict(line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines()
                if line and not line.startswith("#"))


def main():
    with Ways() as ways:
        found = outcomes(ways)
    print("\n".join(totals(found)))
    print("node tests that pass run on " +
          ", ".join(f"{way}: {count}" for way, count in sorted(ways.counts.items())))
    if sys.argv[1:] == ["--write"]:
        rows = [f"{name}\t{outcome}" for name, outcome in sorted(found.items())
                if outcome != "pass"]
        LIST.write_text("# Backend tests of onnx that vernier.backend does not pass: written by "
                        "onnx_suite.py --write\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
