#!/usr/bin/env python3
"""Installs the wheel into a folder of its own and runs the pytest files beside this one with it.

Usage: run.py FOLDER_OF_THE_WHEEL [pytest options]
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


@contextlib.contextmanager
def installed(wheel_folder):
    """The environment in which Python finds the package of the one wheel in the folder."""
    wheels = list(pathlib.Path(wheel_folder).glob("vernier-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"expected one wheel in {wheel_folder}, got {len(wheels)}; run: ./dev wheel")
    with tempfile.TemporaryDirectory() as site:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
                        "--disable-pip-version-check", "--target", site, str(wheels[0])],
                       check=True)
        yield dict(os.environ, PYTHONPATH=site, PYTHONDONTWRITEBYTECODE="1")


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    with installed(sys.argv[1]) as environment:
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                               str(HERE), *sys.argv[2:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
