#!/usr/bin/env python3
"""tools/gpu.py and './dev gpu --programs': what they conclude from the output of programs, with
programs, a device and a compute-sanitizer that only print. Needs no device.
"""
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gpu  # noqa: E402

PASSES = "echo '[       OK ] Cases.Relu (3 ms)'"
CLEAN = 'while [ "$1" != --bare ]; do last=$1; shift; done\n"$last" --bare\n' \
    "echo '========= ERROR SUMMARY: 0 errors'"
INVARIANCE = """cat >"$1" <<END
[{"model": "base", "m": 1024, "ours_us": 103.0, "free_us": 100.0},
 {"model": "base", "m": 512, "ours_us": 200.0, "free_us": 100.0}]
END
echo all our tile shapes gave a row the same bits"""

# Writes to its last argument, the file after --json.
TIMED = """for file; do :; done
cat >"$file" <<END
[{{"case": "Add f16", "kernel": "cuda.add.loop", "us": 1.5, "check": "{}"}},
 {{"case": "Add f32", "kernel": "cuda.add.loop", "us": 1.5, "check": "not compared"}}]
END
exit {}"""


def program(file, script):
    file.write_text("#!/bin/sh\n" + script + "\n", encoding="utf-8")
    file.chmod(0o755)


class Machine(unittest.TestCase):
    """A machine whose programs do what a test says."""

    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        for name in ("path", "programs", "logs"):
            (self.folder / name).mkdir()
        self.tool("nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'")
        for name in ("test_backend_cuda", "test_scenarios", "test_runtime"):
            self.made(name, PASSES)
        self.made("planted_defects", "echo 'a plant: ok'")

    def tool(self, name, script):
        program(self.folder / "path" / name, script)

    def made(self, name, script):
        program(self.folder / "programs" / name, script)

    def environment(self):
        return dict(os.environ, PATH=f"{self.folder / 'path'}:{os.environ['PATH']}")

    def run_gpu(self, *options):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "gpu.py"), str(self.folder / "programs"),
             "--output", str(self.folder / "logs"), *options],
            capture_output=True, text=True, check=False, env=self.environment())
        return done.returncode, done.stdout + done.stderr


class Tests(Machine):
    def test_counts_what_passed(self):
        code, out = self.run_gpu()
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"operator tables +16 passed +all pass +yes")
        self.assertRegex(out, r"planted defects +6 passed +all pass +yes")
        self.assertTrue(out.endswith("nothing failed\n"), out)
        self.assertIn("16 passed", (self.folder / "logs" / "table.txt").read_text(encoding="utf-8"))

    def test_a_failing_process_fails_and_shows_its_end(self):
        self.made("test_runtime", PASSES + "; echo 'wrong at element 3'; exit 1")
        code, out = self.run_gpu()
        self.assertEqual(code, 1)
        self.assertIn("wrong at element 3", out)
        self.assertIn("test_runtime 1 of 1: FAILED, exit 1", out)
        self.assertTrue(out.endswith("FAILED: sessions\n"), out)

    def test_a_process_that_runs_no_test_fails(self):
        self.made("test_scenarios", 'if [ "$GTEST_SHARD_INDEX" = 2 ]; then exit 0; fi\n' + PASSES)
        code, out = self.run_gpu()
        self.assertEqual(code, 1)
        self.assertIn("test_scenarios 3 of 12: FAILED, ran no test", out)

    def test_skips_are_counted_and_printed(self):
        self.made("test_scenarios", PASSES + "\necho 'SKIP: no such kernel'"
                  "\necho '[  SKIPPED ] Half.Softmax (0 ms)'\necho '[  SKIPPED ] Half.Softmax'")
        code, out = self.run_gpu()
        self.assertEqual(code, 0)
        self.assertIn("SKIP: no such kernel", out)
        self.assertRegex(out, "scenarios, example models +12 passed, 12 skipped ")

    def test_what_hangs_is_stopped_and_fails(self):
        self.made("test_runtime", "exec sleep 60")
        code, out = self.run_gpu("--limit", "2")
        self.assertEqual(code, 1)
        self.assertIn("test_runtime 1 of 1: FAILED, was stopped", out)

    def test_without_a_device_nothing_runs(self):
        self.tool("nvidia-smi", "exit 9")
        code, out = self.run_gpu("--all")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("SKIP gpu tests:"), out)

    def test_a_wrong_stage_is_named(self):
        code, out = self.run_gpu("--stages", "tests,speed")
        self.assertEqual(code, 2)
        self.assertIn("there is no 'speed'; there are tests, memcheck", out)


class Sanitizer(Machine):
    def test_no_report_is_a_pass(self):
        self.tool("compute-sanitizer", CLEAN)
        code, out = self.run_gpu("--stages", "memcheck")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"memcheck +0 reports, 16 passed +0 reports +yes")

    def test_a_report_fails(self):
        self.tool("compute-sanitizer", PASSES + """
echo '========= Invalid __global__ read of size 4 bytes'
echo '=========     at norm_kernel(float const*)+0x40'
echo '========= ERROR SUMMARY: 3 errors'""")
        code, out = self.run_gpu("--stages", "memcheck")
        self.assertEqual(code, 1)
        self.assertIn("memcheck: Invalid __global__ read of size 4 bytes", out)
        self.assertIn("memcheck: 2 more", out)

    def test_a_tool_that_does_not_end_fails(self):
        self.tool("compute-sanitizer", PASSES)
        code, out = self.run_gpu("--stages", "initcheck")
        self.assertEqual(code, 1)
        self.assertIn("or the tool did not end", out)

    def test_a_report_of_racecheck_fails(self):
        self.tool("compute-sanitizer", PASSES + """
echo '========= Error: Race reported between Write access at softmax_kernel(X)+0x80 [8 hazards]'
echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'""")
        code, out = self.run_gpu("--stages", "racecheck")
        self.assertEqual(code, 1)
        self.assertIn("racecheck: Race reported between Write access at softmax_kernel", out)


class Benchmarks(Machine):
    def test_times_do_not_decide(self):
        self.made("bench_invariance", INVARIANCE)
        code, out = self.run_gpu("--stages", "invariance")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"equal bits, base 1024 rows +\+3\.0 % +at most 1 % +NO")
        self.assertNotIn("512 rows", out)

    def test_other_bits_do(self):
        self.made("bench_invariance", "echo '64x32: other bits than our first tile shape'; exit 1")
        code, out = self.run_gpu("--stages", "invariance")
        self.assertEqual(code, 1)
        self.assertIn("FAILED: bits of rows in products", out)

    def test_a_stage_without_its_program_is_skipped(self):
        code, out = self.run_gpu("--stages", "invariance")
        self.assertEqual(code, 0)
        self.assertIn("has no bench_invariance; './dev gpu --all' builds it", out)
        self.assertRegex(out, r"invariance +not run: no bench_invariance +-")

    def test_timed_kernels_are_counted(self):
        self.made("test_backend_cuda", TIMED.format("right", 0))
        code, out = self.run_gpu("--stages", "kernels")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"timed kernels +1 right, 1 not compared +none wrong +yes")

    def test_a_wrong_result_of_a_timed_kernel_fails(self):
        self.made("test_backend_cuda", TIMED.format("WRONG", 1))
        code, out = self.run_gpu("--stages", "kernels")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"timed kernels +1 not compared, 1 WRONG +none wrong +NO")
        self.assertIn("FAILED: timed kernels", out)

    def test_the_lines_of_a_comparison(self):
        result = {"failures": [], "engines": [
            {"model": "large", "type": "fp16", "build": {"first_result_s": 9.0}}], "cells": [
            {"model": "large", "cell": "b1s128", "type": "fp16", "floor_ms": 0.8,
             "vernier": {"median_ms": 0.7}, "pytorch": {"median_ms": 6.0}},
            {"model": "base", "cell": "b1s128", "type": "fp16", "vernier": {"median_ms": 0.4}},
            {"model": "base", "cell": "b7s7", "type": "fp16", "vernier": {"median_ms": 0.4}}]}
        lines = [str(line) for line in gpu.peer_lines("peers", result)]
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[0], "agree with FP64, equal, the same +all +yes")
        self.assertRegex(lines[1], r"0\.700 ms \(PyTorch 6\.000, floor 0\.800\) +0\.72 ms +yes")
        self.assertRegex(lines[2], r"base b1s128 fp16 +0\.400 ms .* NO")
        self.assertRegex(lines[3], r"first result of large +9\.0 s +20 s +yes")
        result["failures"].append("large fp16 mixed: no time was left")
        self.assertIs(gpu.peer_lines("peers", result)[0].good, False)


class Packed(Machine):
    def run_packed(self):
        pack = self.folder / "pack.tar.xz"
        with tarfile.open(pack, "w:xz") as tar:
            for file in (self.folder / "programs").iterdir():
                tar.add(file, file.name)
        done = subprocess.run(["bash", str(ROOT / "dev"), "gpu", "--programs", str(pack), "--output",
                               str(self.folder / "logs")], capture_output=True, text=True,
                              check=False, env=self.environment())
        return done.returncode, done.stdout + done.stderr

    def test_a_pack_runs_and_names_its_tree(self):
        (self.folder / "programs" / "tree").write_text("1a2b3c4\n", encoding="utf-8")
        code, out = self.run_packed()
        self.assertEqual(code, 0, out)
        self.assertIn("NVIDIA H200, tree 1a2b3c4, ", out)

    def test_its_failure_is_the_command_s(self):
        self.made("planted_defects", "echo 'a plant: WRONG'; exit 1")
        code, out = self.run_packed()
        self.assertEqual(code, 1)
        self.assertIn("FAILED: planted defects", out)

    def test_what_is_no_pack_is_an_error(self):
        done = subprocess.run(["bash", str(ROOT / "dev"), "gpu", "--programs", "nothing.tar.xz"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected a file that './dev gpu --pack FILE' made", done.stderr)


if __name__ == "__main__":
    unittest.main()
