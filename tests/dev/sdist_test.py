#!/usr/bin/env python3
"""The sdist: what is in it, that CMake configures it, and that pip makes its wheel by the backend.

Usage: sdist_test.py CMAKE SOURCE_FOLDER [PYTHON_WITH_NANOBIND]
Compiles nothing: a script that stands in for CMake packs a wheel with an empty module. Without PYTHON
the parts that need nanobind print SKIP.
"""
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from package_test import demand, run

MOST_BYTES = 3_000_000
# Stands in for CMake: records its arguments, and writes the wheel when asked to build.
CMAKE = """#!{python}
import pathlib, subprocess, sys
with open("{folder}/calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if sys.argv[1] == "--version":
    print("cmake version {version}")
elif sys.argv[1] == "--build":
    module = pathlib.Path(sys.argv[2], "_native.abi3.so")
    module.write_bytes(b"")
    sys.exit(subprocess.call([sys.executable, "tools/make_wheel.py", "{wheel}", module,
                              sys.argv[2] + "/wheel"]))
else:
    print("{says}")
    sys.exit({code})
"""


def pack(tree, folder):
    """Runs the backend of `tree` as a program; returns the sdist's path."""
    return pathlib.Path(run(sys.executable, tree / "tools" / "build_backend.py", folder).strip())


def check_contents(source, folder):
    """Packs twice, also from the unpacked tree; returns that tree."""
    first = pack(source, folder / "first")
    with tarfile.open(first) as archive:
        entries = archive.getmembers()
        archive.extractall(folder)
    top = first.name.removesuffix(".tar.gz")
    names = [entry.name.removeprefix(f"{top}/") for entry in entries]
    demand(all(entry.isfile() and entry.name.startswith(f"{top}/") for entry in entries),
           "the sdist holds something else than files below its folder")
    demand({(entry.mtime, entry.uid, entry.uname) for entry in entries} == {(315532800, 0, "")},
           "the sdist holds times or users of this machine")
    for needed in ("PKG-INFO", "LICENSE", "README.md", "pyproject.toml", "CMakeLists.txt"):
        demand(needed in names, f"the sdist lacks {needed}")
    extra = [name for name in names if name.split("/")[0] in ("tests", "bench", "fuzz", "docs")]
    demand(not extra, f"the sdist holds {extra[:3]}")
    size = first.stat().st_size
    demand(size < MOST_BYTES, f"the sdist has {size} bytes, expected less than {MOST_BYTES}")
    tree = folder / top
    for again in (source, tree):
        other = pack(again, folder / "second")
        demand(other.read_bytes() == first.read_bytes(), f"{again} gives other bytes this time")
    print(f"{first.name}: {len(names)} files, {size} bytes")
    return tree


def check_configure(cmake, tree, python, folder):
    """CMake configures the unpacked tree, and all files that its build reads are there."""
    build = folder / "build"
    script = ("import pathlib, sys; sys.path.insert(0, 'tools'); import build_backend; "
              "build_backend.configure(pathlib.Path(sys.argv[1]))")
    path = f"{pathlib.Path(cmake).parent}{os.pathsep}{os.environ['PATH']}"
    run(python, "-c", script, build, cwd=tree, env={**os.environ, "PATH": path})
    read = set(run("ninja", "-C", build, "-t", "targets", "rule").splitlines())
    absent = [name for name in read if not (build / name).exists()]
    demand(not absent, f"the build reads files that the sdist lacks: {absent[:5]}")
    for name in ("python/bindings/native.cpp", "tools/make_wheel.py", "src/core/error.h"):
        demand(str(tree / name) in read, f"the build does not read {name}")


def in_place_of_cmake(folder, **different):
    folder.mkdir()
    program = folder / "cmake"
    values = {"version": "3.25.1", "wheel": "", "says": "", "code": 0, **different}
    program.write_text(CMAKE.format(python=sys.executable, folder=folder, **values),
                       encoding="utf-8")
    program.chmod(0o755)
    for tool in ("ninja", "c++"):
        (folder / tool).symlink_to("/bin/true")
    return folder


def call(python, tree, path, what):
    """What an expression of the backend prints, and its errors, with no other programs on PATH."""
    script = f"import sys; sys.path.insert(0, 'tools'); import build_backend as b; print({what})"
    environment = {name: value for name, value in os.environ.items() if name != "CXX"}
    return subprocess.run([python, "-c", script], cwd=tree, capture_output=True, text=True,
                          check=False, env={**environment, "PATH": str(path)})


def check_requirements(tree, folder):
    def needed(path):
        return call(sys.executable, tree, path, "b.get_requires_for_build_wheel()").stdout

    pin = next(line for line in (tree / "requirements.txt").read_text(encoding="utf-8").splitlines()
               if line.startswith("nanobind=="))
    empty = folder / "empty"
    empty.mkdir()
    demand(needed(in_place_of_cmake(folder / "new")) == f"['{pin}']\n", "expected nanobind alone")
    old = in_place_of_cmake(folder / "old", version="3.22.1")
    demand(needed(old) == f"['{pin}', 'cmake>=3.25']\n", "CMake 3.22 is too old, and pip is not told")
    demand(needed(empty) == f"['{pin}', 'cmake>=3.25', 'ninja']\n", "expected CMake and Ninja, too")


def check_messages(tree, python, folder):
    def error(path, expected):
        done = call(python, tree, path, f"b.build_wheel('{folder}')")
        demand(done.returncode == 1 and "Traceback" not in done.stderr, f"{done}")
        demand(expected in done.stdout + done.stderr,
               f"expected '{expected}' in:\n{done.stdout}{done.stderr}")

    error(folder / "empty", "Not found: a C++ compiler (c++, g++, clang++, or the one that CXX "
          "names), CMake 3.25, Ninja.\nOn Debian and Ubuntu: apt-get install --no-install-recommends g++ "
          "cmake ninja-build")
    library = in_place_of_cmake(folder / "library", says="Not found: Highway.", code=1)
    error(library, "Not found: Highway.")
    error(library, "vernier: error: CMake could not configure the build; the reason is above")
    headers = in_place_of_cmake(folder / "headers", says="-- No Python package: no headers")
    error(headers, "vernier: error: no headers")


def check_pip(tree, python, folder):
    """pip makes the wheel of the unpacked tree; it says what PKG-INFO and the metadata hook say."""
    version = tree.name.removeprefix("vernier-")
    programs = in_place_of_cmake(folder / "pip", wheel=version)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    run(python, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index",
        "--disable-pip-version-check", "-C", "cmake=-DVERNIER_ONEDNN=OFF -DOTHER=1",
        "-w", folder / "made", tree, env={**os.environ, "PATH": path})
    calls = (programs / "calls").read_text(encoding="utf-8")
    for argument in (f"-DVERNIER_PYTHON={python}", "-DVERNIER_TESTS=OFF", "-DVERNIER_BENCH=OFF",
                     "-DVERNIER_ONEDNN=OFF -DOTHER=1\n", "--target wheel\n"):
        demand(argument in calls, f"expected '{argument}' among CMake's arguments:\n{calls}")
    call(python, tree, path, f"b.prepare_metadata_for_build_wheel('{folder}')")
    information = (tree / "PKG-INFO").read_bytes()
    inside = f"vernier-{version}.dist-info/METADATA"
    demand((folder / inside).read_bytes() == information, "the metadata hook differs from PKG-INFO")
    made, = (folder / "made").glob("vernier-*.whl")
    with zipfile.ZipFile(made) as archive:
        demand(archive.read(inside) == information, "the wheel's metadata differs from PKG-INFO")
    demand(f"\nVersion: {version}\n".encode() in information, "PKG-INFO has another version")


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    cmake, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        tree = check_contents(source, folder)
        check_requirements(tree, folder)
        if len(sys.argv) < 4:
            print("SKIP configuring and building: there is no Python with nanobind; the rest works")
            return 0
        python = sys.argv[3]
        check_messages(tree, python, folder)
        check_configure(cmake, tree, python, folder)
        check_pip(tree, python, folder)
    print("the sdist builds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
