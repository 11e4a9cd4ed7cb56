#!/usr/bin/env python3
"""tools/try_wheels.py: which wheel it tries where, and its reasons. Installs nothing: that a wheel
passes and that one fails is shown by tests/python/portable.py."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "try_wheels.py"
sys.path.insert(0, str(TOOL.parent))
import try_wheels  # pylint: disable=wrong-import-position


def run(wheels, *options, path=None):
    """The exit code and the lines for a folder of (empty) files of these names."""
    with tempfile.TemporaryDirectory() as folder:
        for name in wheels:
            pathlib.Path(folder, name).touch()
        done = subprocess.run([sys.executable, TOOL, folder, *options], capture_output=True, text=True,
                              check=False, env={**os.environ, "PATH": path or os.environ["PATH"]})
    return done.returncode, (done.stdout + done.stderr).splitlines()


class TryWheelsTest(unittest.TestCase):
    def test_a_folder_without_wheels(self):
        code, lines = run(["vernier-1.tar.gz"])
        self.assertEqual(code, 1)
        self.assertRegex(lines[0], "there is no wheel in .*; run: ./dev wheel")

    def test_a_python_that_is_not_there(self):
        code, lines = run(["vernier-1-cp311-cp311-linux_x86_64.whl"], "--python", "python3.99")
        self.assertEqual(code, 0)
        self.assertTrue(lines[0].startswith("SKIP  python3.99: there is no such Python: "), lines)
        self.assertEqual(lines[1:], ["SKIP  vernier-1-cp311-cp311-linux_x86_64.whl: it is for none of "
                                     "these Pythons", "0 passed, 0 failed, 2 skipped"])

    def test_a_python_that_no_wheel_is_for(self):
        _, lines = run(["vernier-1-cp27-cp27-linux_x86_64.whl"], "--python", sys.executable)
        self.assertRegex(lines[0], r"^SKIP  Python 3\..*: no wheel is for it$")

    def test_a_root_that_cannot_be_made(self):
        code, lines = run(["vernier-1-cp311-cp311-linux_x86_64.whl"], "--root", "/none/root",
                          path="/nowhere")
        self.assertEqual(code, 0)
        self.assertIn("SKIP  /none/root: there is no Debian root; as root, with the package "
                      "debootstrap installed, it is made by: debootstrap --variant=minbase "
                      "--include=python3-venv bookworm /none/root", lines)

    def test_which_wheels_a_python_takes(self):
        table = [((3, 11), "cp311-cp311", True), ((3, 12), "cp311-cp311", False),
                 ((3, 10), "cp312-abi3", False), ((3, 12), "cp312-abi3", True),
                 ((3, 13), "cp312-abi3", True), ((3, 13), "cp39-cp39", False)]
        for number, tags, expected in table:
            python = object.__new__(try_wheels.Python)
            python.number = number
            wheel = pathlib.Path(f"vernier_cuda13-1-{tags}-manylinux_2_35_x86_64.whl")
            self.assertEqual(python.takes(wheel), expected, (number, tags))


if __name__ == "__main__":
    unittest.main()
