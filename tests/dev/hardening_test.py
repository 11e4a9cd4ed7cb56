#!/usr/bin/env python3
"""What cmake/hardening.cmake asks for is in the program and in the Python package's library.

Usage: hardening_test.py PROGRAM [LIBRARY.so...]
Read with readelf: a position-independent program, tables that are read-only once it runs, no
executable stack, stack protectors, checked calls of the C library and of containers.
"""
import re
import shutil
import subprocess
import sys


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True,
                          text=True).stdout


def complaints(path, is_program):
    """What is missing in one file."""
    header, segments = readelf("-h", path), readelf("-l", path)
    dynamic, symbols = readelf("-d", path), readelf("--dyn-syms", path)
    stack = re.search(r"GNU_STACK\s.*?\s([RWE ]+)\s+0x", segments)
    checks = {
        "is not a position-independent program": "DYN" in header,
        "has no interpreter: is it a program?": not is_program or "INTERP" in segments,
        "is not marked as a program (-pie)": not is_program or re.search(r"FLAGS_1.*PIE", dynamic),
        "has tables that remain writable (relro)": "GNU_RELRO" in segments,
        "binds functions late (-z now is missing)": re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic),
        "has an executable stack": stack and "E" not in stack.group(1),
        "has no stack protectors": "__stack_chk_fail" in symbols,
        "has no checked calls (_FORTIFY_SOURCE)": re.search(
            r"__(mem|str|v?s?n?printf|read|fread|vfprintf)\w*_chk\b", symbols),
        "has no checked containers (_GLIBCXX_ASSERTIONS)": "__glibcxx_assert_fail" in symbols,
    }
    return [f"{path} {what}" for what, fine in checks.items() if not fine]


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if shutil.which("readelf") is None:
        print("SKIP: readelf (binutils) is not installed")
        return 0
    missing = [what for number, path in enumerate(sys.argv[1:])
               for what in complaints(path, is_program=number == 0)]
    print("\n".join(missing) or f"{len(sys.argv) - 1} files are hardened")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
