#!/usr/bin/env python3
"""./dev: what it says without root, on another distribution, and on wrong usage."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DEV = pathlib.Path(__file__).resolve().parents[2] / "dev"


def run(arguments, path=None, dev=DEV):
    environment = dict(os.environ, PATH=path or os.environ["PATH"])
    done = subprocess.run([shutil.which("bash"), str(dev), *arguments], capture_output=True,
                          text=True, env=environment, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


PROJECT = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(tiny LANGUAGES NONE)\n"
                      "add_custom_target(built ALL COMMAND ${CMAKE_COMMAND} -E echo "
                      "built in ${CMAKE_SOURCE_DIR})\n",
    "CMakePresets.json": '{"version": 3, "configurePresets": [{"name": "release", "generator": '
                         '"Ninja", "binaryDir": "${sourceDir}/build/release"}]}',
}


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

    def test_wheel_options_that_stand_alone(self):
        code, _, errors = run(["wheel", "--python", "python3", "--sdist"])
        self.assertEqual(code, 2)
        self.assertIn("takes --cuda and --python PROGRAM, or --sdist or --try alone", errors)
        code, _, errors = run(["wheel", "--sdist", "--cuda"])
        self.assertEqual(code, 2)
        self.assertIn("./dev wheel --sdist takes no other option, not '--cuda'", errors)

    def test_without_root_prints_the_missing_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            fake_program(folder, "dpkg-query", "exit 1")
            fake_program(folder, "id", "echo 1000")
            code, _, errors = run(["build"], path=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(code, 2)
        self.assertIn("install them as root", errors)
        self.assertIn("apt-get install --no-install-recommends g++ cmake ninja-build", errors)

    @unittest.skipUnless(shutil.which("ninja"), "ninja is not installed")
    def test_a_moved_clone_builds(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = pathlib.Path(folder, "first"), pathlib.Path(folder, "second")
            first.mkdir()
            shutil.copy(DEV, first)
            for name, text in PROJECT.items():
                (first / name).write_text(text, encoding="utf-8")
            fake_program(folder, "dpkg-query", "echo install ok installed")
            path = f"{folder}:{os.environ['PATH']}"
            code, out, errors = run(["build"], path, dev=first / "dev")
            self.assertEqual((code, "configured in" in out), (0, False), errors)
            shutil.copytree(first, second)
            for attempt in range(2):  # once with the message, then as any other build
                code, out, errors = run(["build"], path, dev=second / "dev")
                self.assertEqual(code, 0, errors)
                self.assertIn(f"built in {second}", out)
                message = f"build/release was configured in {first}; configuring it again"
                self.assertEqual(message in out, attempt == 0)

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

    def test_on_another_distribution_prints_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("bash", "dirname", "nproc", "cat"):
                os.symlink(shutil.which(tool), pathlib.Path(folder, tool))
            code, _, errors = run(["build"], path=folder)
        self.assertEqual(code, 2)
        self.assertIn("'g++' is missing and this is not Debian or Ubuntu", errors)
        self.assertIn("libdnnl-dev", errors)


if __name__ == "__main__":
    unittest.main()
