#!/usr/bin/env python3
"""The wheel for other distributions, in a new virtual environment: it brings its libraries, agrees
with ONNX Runtime in one process, and has the program. tools/try_wheels.py does the trying; a wheel
whose module is empty shows that it can fail.

Usage: portable.py FOLDER_OF_THE_WHEEL    (ctest python.portable)
Run by .venv's Python.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
import try_wheels  # pylint: disable=wrong-import-position

MOST_BYTES = 40_000_000


def run(*command):
    subprocess.run([sys.executable, *map(str, command)], check=True)


def outcomes(folder, beside=()):
    wheels = sorted(folder.glob("*.whl"))
    assert wheels, folder
    for word, what, details in try_wheels.attempts(wheels, [sys.executable], beside):
        print(f"{word}  {what}: {details}", flush=True)
        yield word, details


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        good, bad = pathlib.Path(name, "good"), pathlib.Path(name, "bad")
        run(TOOLS / "portable_wheel.py", sys.argv[1], good)
        wheel, = good.glob("*.whl")
        size = wheel.stat().st_size
        print(f"{wheel.name}: {size} bytes")
        assert "manylinux_2_" in wheel.name, wheel.name
        assert size < MOST_BYTES, f"expected less than {MOST_BYTES} bytes"
        found = list(outcomes(good, ["onnxruntime"]))
        for word, details in found:
            if word == "SKIP":
                print(f"SKIP: {details}")
                return 0
        assert [word for word, _ in found] == ["PASS", "PASS"], found
        module = pathlib.Path(name, "_native.so")
        module.write_bytes(b"")
        run(TOOLS / "make_wheel.py", wheel.name.split("-")[1], module, bad)
        (word, details), = outcomes(bad)
        assert word == "FAIL" and details.startswith("import, build, run, verify: exit 1: "), details
    print("the wheel works in a new environment")
    return 0


if __name__ == "__main__":
    sys.exit(main())
