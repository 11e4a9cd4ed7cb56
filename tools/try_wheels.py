#!/usr/bin/env python3
"""Tries every wheel of a folder in new virtual environments that have NumPy and nothing else.

Usage: try_wheels.py FOLDER [--python PROGRAM]... [--beside PACKAGE]... [--root FOLDER[=SUITE]]...
                                                                          (./dev wheel --try)
A wheel is tried with every given Python that it is for: the package is imported, builds the smallest
model of tests/models, runs it and verifies it, and the program is called in both ways. --beside: then
also with that package in one process, imported before it and after it. --root: in the root of a
Debian suite (bookworm, which is Debian 12, unless another is named), with its own python3. Prints a
line for each, PASS, FAIL or SKIP with the reason; exits with 1 if one failed. Contract:
docs/python.md, "Other machines".
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN = ["debootstrap", "--variant=minbase", "--include=python3-venv"]
# What is mounted is so for this command only, in a namespace of its own.
INSIDE = ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && '
          'mount --rbind /dev "$0/dev" && cd / && exec chroot "$0" "$@"']
# Wheels that pip fetches for a root: for Debian 12's glibc 2.36 or an earlier one, or made here.
PLATFORMS = [f"--platform={name}_x86_64" for name in
             (*(f"manylinux_2_{number}" for number in range(36, 4, -1)), "manylinux2014", "linux")]

# Run in the environment, with the folder of the model, a folder to write to, and what to import.
COMMON = """
import sys
for name in sys.argv[3:]:
    __import__(name)
import numpy as np, vernier
model, stored = sys.argv[1] + "/model.onnx", np.load(sys.argv[1] + "/case_0.npz")
engine = sys.argv[2] + "/model.vn"
feeds = {name[3:]: stored[name] for name in stored.files if name.startswith("in.")}
def compare(answers, tolerance):
    for name, got in answers.items():
        assert np.any(got), name
        np.testing.assert_allclose(got, stored["out." + name], rtol=tolerance, atol=tolerance)
def run():
    compare(vernier.Session(engine).run(feeds), 1e-5)
"""
ALONE = COMMON + """
vernier.build(model, engine)
run()
report = vernier.verify(engine, model, quick=True)
assert report.passed, report.explanation
"""
USED_BESIDE = {
    "onnxruntime": """
import onnxruntime
session = onnxruntime.InferenceSession(model)
names = [output.name for output in session.get_outputs()]
compare(dict(zip(names, session.run(names, feeds))), 1e-4)
""",
    "torch": """
import torch
rows = torch.rand(512, 256)  # enough for several threads
np.testing.assert_allclose((rows @ rows.T).numpy(), rows.numpy() @ rows.numpy().T, rtol=1e-4)
""",
}
OWN_LIBRARIES = """
import re
run()
found = {line.split()[-1] for line in open("/proc/self/maps") if "libdnnl" in line}
assert all(re.search(r"/vernier\\w*\\.libs/", path) for path in found), found
"""
VERSIONS = """
import platform, sys
print("%d.%d" % sys.version_info[:2], platform.python_version(), *platform.libc_ver())
"""


class Failed(Exception):
    """A step that ended with an error; its text is the reason for a person."""


class Skipped(Exception):
    """What cannot be tried here, and why."""


class Place:
    """Where commands run: this system, or with `root` the one in that folder."""

    def __init__(self, root=None):
        self.root = root
        self.prefix = [*INSIDE, str(root)] if root else []
        unwanted = ("PYTHON", "VIRTUAL_ENV", "LD_", "VERNIER_") + (("PIP_",) if root else ())
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(unwanted)}
        if root:
            self.environment["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"

    def folder(self):
        """A temporary folder; commands know it by `seen`."""
        return tempfile.TemporaryDirectory(dir=self.root / "tmp" if self.root else None)

    def seen(self, path):
        return "/" + str(pathlib.Path(path).relative_to(self.root)) if self.root else str(path)

    def run(self, step, *command, code=0):
        """What the command prints. Failed names the step and the last line that it printed."""
        done = subprocess.run([*self.prefix, *map(str, command)], env=self.environment, check=False,
                              cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != code:
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise Failed(f"{step}: exit {done.returncode}: {lines[-1] if lines else 'no output'}")
        return done.stdout + done.stderr


class Python:
    """A Python of a place, and which wheels it can have."""

    def __init__(self, place, program):
        self.place = place  # whose commands do not run in this folder
        self.program = os.path.abspath(program) if "/" in program else program
        try:
            words = place.run("it does not run here", self.program, "-c", VERSIONS).split()
        except (Failed, OSError) as error:
            raise Skipped(f"there is no such Python: {error}") from error
        self.version, full, library = words[0], words[1], " ".join(words[2:]) or "no glibc"
        self.number = tuple(map(int, self.version.split(".")))
        self.name = f"Python {full} ({library}, {place.root or program})"

    def takes(self, wheel):
        python, abi = wheel.name.split("-")[2:4]
        built = int(python[2]), int(python[3:])
        return self.number == built or abi == "abi3" and self.number >= built


class Environment:
    """A new virtual environment of a Python with NumPy, in `folder`."""

    def __init__(self, python, folder):
        self.python, self.place, self.folder = python, python.place, pathlib.Path(folder)
        self.bin = self.seen("venv/bin")

    def make(self):
        try:
            self.place.run("venv", self.python.program, "-m", "venv", self.seen("venv"))
        except Failed as error:
            raise Skipped(f"there is no virtual environment: {error}") from error
        self.try_install("numpy")

    def seen(self, name):
        return self.place.seen(self.folder / name)

    def install(self, what):
        """pip install. A root gets what this system's pip downloads: it needs no network."""
        options = []
        if self.place.root:
            packages = self.folder / "packages"
            Place().run("pip download", sys.executable, "-m", "pip", "download", "-q",
                        "--disable-pip-version-check", "--only-binary=:all:", "--dest", packages,
                        f"--python-version={self.python.version}", *PLATFORMS, what)
            options = ["--no-index", "--find-links", self.place.seen(packages)]
            if isinstance(what, pathlib.Path):
                what = self.place.seen(packages / what.name)
        self.place.run("pip install", f"{self.bin}/python", "-m", "pip", "install", "-q",
                       "--disable-pip-version-check", *options, what)

    def try_install(self, package):
        """Skipped where PyPI cannot be reached, or has no such package for this Python."""
        try:
            self.install(package)
        except Failed as error:
            raise Skipped(f"{package} could not be installed: {error}") from error

    def version_of(self, package):
        return self.script("its version", f"import {package}; print({package}.__version__)").strip()

    def script(self, step, text, *arguments):
        return self.place.run(step, f"{self.bin}/python", "-c", text, *arguments)


def check_programs(environment, version):
    for program in ([f"{environment.bin}/vernier"], [f"{environment.bin}/python", "-m", "vernier"]):
        step = " ".join([pathlib.Path(program[0]).name, *program[1:]])
        out = environment.place.run(f"{step} --version", *program, "--version")
        if version not in out.split():
            raise Failed(f"{step} --version: printed '{out.strip()}', expected {version}")
        out = environment.place.run(f"{step} biuld", *program, "biuld", code=2)
        if "did you mean 'build'" not in out:
            raise Failed(f"{step} biuld: printed '{out.strip()}'")


def try_alone(environment, wheel, model):
    environment.make()
    environment.install(wheel)
    shutil.copytree(model, environment.folder / "model")
    where = environment.seen("model"), environment.seen("")
    environment.script("import, build, run, verify", ALONE, *where)
    environment.script("libraries of its own", COMMON + OWN_LIBRARIES, *where)
    check_programs(environment, wheel.name.split("-")[1])
    return f"numpy {environment.version_of('numpy')}"


def try_beside(environment, package):
    environment.try_install(package)
    where = environment.seen("model"), environment.seen("")
    for order in ((package, "vernier"), ("vernier", package)):
        environment.script(f"import {', '.join(order)}",
                           COMMON + "run()\n" + USED_BESIDE.get(package, "") + OWN_LIBRARIES, *where,
                           *order)
    return f"version {environment.version_of(package)}, imported before it and after it"


def smallest_model():
    models = (ROOT / "tests" / "models").glob("*/model.onnx")
    return min(models, key=lambda path: path.stat().st_size).parent


def made_root(root, suite):
    """A root of the Debian suite with python3-venv in this folder; made where there is none."""
    if (root / "usr" / "bin" / "python3").exists():
        return root
    command = " ".join([*DEBIAN, suite, str(root)])
    if os.geteuid() != 0 or shutil.which(DEBIAN[0]) is None:
        raise Skipped("there is no Debian root; as root, with the package debootstrap installed, it "
                      f"is made by: {command}")
    print(f"making {root}: {command}", flush=True)
    done = subprocess.run([*DEBIAN, suite, str(root)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"{command}: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
    return root


def pythons(programs, roots):
    """A Python for each program and each (root, suite); else the reason why there is none."""
    for program in programs:
        try:
            yield Python(Place(), program)
        except Skipped as reason:
            yield f"{program}: {reason}"
    for root, suite in roots:
        try:
            yield Python(Place(made_root(root, suite)), "/usr/bin/python3")
        except Skipped as reason:
            yield f"{root}: {reason}"


def outcome(function, *arguments):
    try:
        return "PASS", function(*arguments)
    except Skipped as reason:
        return "SKIP", str(reason)
    except Failed as reason:
        return "FAIL", str(reason)


def attempts(wheels, programs, beside=(), roots=()):
    """(PASS, FAIL or SKIP; what was tried; the details) for each."""
    model, untried = smallest_model(), set(wheels)
    for python in pythons(programs, roots):
        if isinstance(python, str):
            yield "SKIP", *python.split(": ", 1)
            continue
        fitting = list(filter(python.takes, wheels))
        if not fitting:
            yield "SKIP", python.name, "no wheel is for it"
        for wheel in fitting:
            untried.discard(wheel)
            what = f"{wheel.name}, {python.name}"
            with python.place.folder() as folder:
                environment = Environment(python, folder)
                word, details = outcome(try_alone, environment, wheel, model)
                yield word, what, details
                for package in beside if word == "PASS" else ():
                    word, details = outcome(try_beside, environment, package)
                    yield word, f"{what}, beside {package}", details
    for wheel in sorted(untried):
        yield "SKIP", wheel.name, "it is for none of these Pythons"


def root_and_suite(text):
    folder, _, suite = text.partition("=")
    return pathlib.Path(folder).resolve(), suite or "bookworm"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--beside", action="append", default=[])
    parser.add_argument("--root", action="append", default=[], type=root_and_suite)
    options = parser.parse_args()
    wheels = sorted(options.folder.resolve().glob("vernier*.whl"))
    if not wheels:
        print(f"there is no wheel in {options.folder}; run: ./dev wheel")
        return 1
    programs = options.python or ([] if options.root else ["python3"])
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for word, what, details in attempts(wheels, programs, options.beside, options.root):
        counts[word] += 1
        print(f"{word}  {what}: {details}", flush=True)
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
