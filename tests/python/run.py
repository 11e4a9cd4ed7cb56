#!/usr/bin/env python3
"""Installs the wheel into a folder of its own and runs the pytest files beside this one with it.

Usage: run.py FOLDER_OF_THE_WHEEL [pytest options]
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    wheels = list(pathlib.Path(sys.argv[1]).glob("vernier-*.whl"))
    if len(wheels) != 1:
        print(f"expected one wheel in {sys.argv[1]}, got {len(wheels)}; run: ./dev wheel")
        return 1
    with tempfile.TemporaryDirectory() as site:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
                        "--disable-pip-version-check", "--target", site, str(wheels[0])],
                       check=True)
        environment = dict(os.environ, PYTHONPATH=site, PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                               str(HERE), *sys.argv[2:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
