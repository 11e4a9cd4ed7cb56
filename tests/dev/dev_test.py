#!/usr/bin/env python3
"""./dev: what it says without root, on another distribution, and on wrong usage."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DEV = pathlib.Path(__file__).resolve().parents[2] / "dev"


def run(arguments, path=None):
    environment = dict(os.environ, PATH=path or os.environ["PATH"])
    done = subprocess.run([shutil.which("bash"), str(DEV), *arguments], capture_output=True,
                          text=True, env=environment, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def fake_program(folder, name, script):
    file = pathlib.Path(folder, name)
    file.write_text("#!/bin/sh\n" + script + "\n", encoding="utf-8")
    file.chmod(0o755)


class DevTest(unittest.TestCase):
    def test_help_lists_commands_and_examples(self):
        code, out, _ = run(["--help"])
        self.assertEqual(code, 0)
        for word in ("demo", "test", "build", "wheel", "bench", "format", "lint", "layering", "gpu",
                     "Examples:"):
            self.assertIn(word, out)

    def test_unknown_command_is_wrong_usage(self):
        code, _, errors = run(["tset"])
        self.assertEqual(code, 2)
        self.assertIn("unknown command 'tset'; './dev --help' lists the commands", errors)

    def test_no_command_prints_the_usage(self):
        code, _, errors = run([])
        self.assertEqual(code, 2)
        self.assertIn("./dev COMMAND", errors)

    def test_a_bench_on_a_device_that_is_not_there_is_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            fake_program(folder, "nvidia-smi", "exit 9")
            fake_program(folder, "dpkg-query", "echo install ok installed")
            code, out, _ = run(["bench", "--device", "cuda"], path=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(code, 0)
        self.assertIn("SKIP bench --device cuda: there is no NVIDIA device", out)

    def test_without_root_prints_the_missing_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            fake_program(folder, "dpkg-query", "exit 1")
            fake_program(folder, "id", "echo 1000")
            code, _, errors = run(["build"], path=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(code, 2)
        self.assertIn("install them as root", errors)
        self.assertIn("apt-get install --no-install-recommends g++ cmake ninja-build", errors)

    def test_packages_that_cannot_be_installed_are_left_to_cmake(self):
        with tempfile.TemporaryDirectory() as folder:
            fake_program(folder, "dpkg-query", "exit 1")
            fake_program(folder, "id", "echo 0")
            fake_program(folder, "apt-get", "exit 100")
            fake_program(folder, "cmake", "echo Not found: Highway; exit 1")
            code, out, errors = run(["build"], path=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(code, 2)
        self.assertIn("apt-get could not install them", out)
        self.assertIn("Not found: Highway", errors)
        self.assertIn("cmake could not configure the preset 'release'", errors)

    def test_another_distribution_is_told_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("bash", "dirname", "nproc", "cat"):
                os.symlink(shutil.which(tool), pathlib.Path(folder, tool))
            code, _, errors = run(["build"], path=folder)
        self.assertEqual(code, 2)
        self.assertIn("'g++' is missing and this is not Debian or Ubuntu", errors)
        self.assertIn("libdnnl-dev", errors)


if __name__ == "__main__":
    unittest.main()
