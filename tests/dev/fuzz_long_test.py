#!/usr/bin/env python3
"""vernier_fuzz_long: failures are recorded and the run goes on, also from its state file."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def totals(out):
    return re.sub(r"; \d+ s$", "", out.strip().splitlines()[-1])


class FuzzLongTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def self_test(self, *arguments):
        return run("self_test", "--limit", 1, "--batch", 7, "--found", self.folder / "found",
                   *arguments)

    def test_crashes_hangs_and_reports_are_recorded(self):
        code, out, _ = self.self_test("--count", 24)
        self.assertEqual(code, 1)
        counts = re.search(r"24 inputs of seed 1: (\d+) refused, 0 too large to run, (\d+) reached a "
                           r"first launch .*; (\d+) crashes, (\d+) hangs, (\d+) sanitizer reports",
                           totals(out))
        numbers = [int(number) for number in counts.groups()]
        self.assertEqual(sum(numbers), 24)
        self.assertTrue(all(numbers), out)
        self.assertIn("self_test: a crash on purpose", out)
        recorded = list((self.folder / "found").glob("self_test-1-*.bin"))
        self.assertEqual(len(recorded), sum(numbers[2:]))

    def test_a_run_goes_on_from_its_state(self):
        state = self.folder / "state"
        self.self_test("--count", 9, "--state", state)
        _, in_parts, _ = self.self_test("--count", 16, "--state", state)
        _, at_once, _ = self.self_test("--count", 16)
        self.assertEqual(totals(in_parts), totals(at_once))

    def test_the_state_of_another_run_is_refused(self):
        state = self.folder / "state"
        self.self_test("--count", 1, "--state", state)
        code, _, errors = self.self_test("--seed", 2, "--state", state)
        self.assertEqual(code, 2)
        self.assertIn("is not the state of a run of 'self_test' with seed 2; give another file",
                      errors)

    def test_unknown_targets_and_files_are_refused(self):
        code, _, errors = run("nothing")
        self.assertEqual(code, 2)
        self.assertIn("unknown target 'nothing'; expected compile, run, request or verify",
                      errors)
        code, _, errors = run("run", "--replay", self.folder / "missing")
        self.assertEqual(code, 2)
        self.assertIn("cannot read '", errors)

    def test_an_input_can_be_replayed(self):
        file = self.folder / "input"
        file.write_bytes(b"\x03")
        code, out, _ = run("self_test", "--replay", file)
        self.assertEqual((code, out), (0, f"{file}: refused\n"))


if __name__ == "__main__":
    unittest.main()
