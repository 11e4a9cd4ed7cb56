#!/usr/bin/env python3
"""The wheel for other distributions, in a new virtual environment: it brings its libraries, agrees
with ONNX Runtime in one process, and has the program.

Usage: portable.py FOLDER_OF_THE_WHEEL [WHEEL PYTHON]...
Run by .venv's Python (ctest python.portable). With WHEEL: this one, in an environment of PYTHON, which
may be another version.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "models" / "bge_reranker_ts17"
MOST_BYTES = 40_000_000
SESSIONS = """
import sys
for name in sys.argv[1:3]:
    __import__(name)
import numpy as np, onnxruntime, vernier
stored = np.load(sys.argv[3] + "/case_1.npz")
feeds = {name[3:]: stored[name] for name in stored.files if name.startswith("in.")}
ours = vernier.Session(sys.argv[4]).run(None, feeds)
theirs = onnxruntime.InferenceSession(sys.argv[3] + "/model.onnx").run(None, feeds)
for a, b in zip(ours, theirs):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libdnnl" in line}
print("oneDNN:", *libraries)
assert libraries and all("/vernier.libs/" in path for path in libraries), libraries
"""


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run(list(map(str, command)), check=True, text=True, **options)


def check(wheel, python, folder):
    """Installs `wheel` into a new environment of `python` and uses it. False: PyPI is out of reach."""
    assert "manylinux_2_" in wheel.name, wheel.name
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size} bytes")
    assert size < MOST_BYTES, f"expected less than {MOST_BYTES} bytes"
    run(python, "-m", "venv", folder / "environment")
    programs = folder / "environment" / "bin"
    installed = subprocess.run(
        [str(programs / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check",
         "--retries", "1", "--timeout", "20", str(wheel), "numpy", "onnxruntime"],
        capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        print("SKIP: numpy and onnxruntime could not be installed from PyPI into a new "
              f"environment: {installed.stderr.strip().splitlines()[-1]}")
        return False
    engine = folder / "model.vn"
    for program in ([programs / "vernier"], [programs / "python", "-m", "vernier"]):
        run(*program, "build", MODEL / "model.onnx", "-o", engine, cwd=folder)
        run(*program, "verify", engine, "--model", MODEL / "model.onnx", "--quick", cwd=folder)
    wrong = subprocess.run([programs / "vernier", "biuld"], capture_output=True, text=True,
                           check=False)
    assert wrong.returncode == 2 and "did you mean 'build'" in wrong.stderr, wrong
    for order in (("vernier", "onnxruntime"), ("onnxruntime", "vernier")):
        run(programs / "python", "-c", SESSIONS, *order, MODEL, engine, cwd=folder)
    return True


def main():
    if len(sys.argv) < 2 or len(sys.argv) % 2:
        print(__doc__, file=sys.stderr)
        return 2
    pairs = list(zip(map(pathlib.Path, sys.argv[2::2]), sys.argv[3::2]))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not pairs:
            run(sys.executable, ROOT / "tools" / "portable_wheel.py", sys.argv[1], folder)
            pairs = [(wheel, sys.executable) for wheel in folder.glob("*.whl")]
        assert pairs
        for number, (wheel, python) in enumerate(pairs):
            own = folder / str(number)
            own.mkdir()
            if not check(wheel.resolve(), python, own):
                return 0
    print("the wheel works in a new environment")
    return 0


if __name__ == "__main__":
    sys.exit(main())
