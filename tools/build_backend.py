#!/usr/bin/env python3
"""The sdist, and what pip calls to build a wheel from it or from this tree (PEP 517).

Usage: build_backend.py FOLDER    writes FOLDER/vernier-VERSION.tar.gz (./dev wheel --sdist)
Equal files give equal bytes. Uses the standard library only. Contract: docs/python.md, "From the
sources".
"""
import gzip
import importlib.util
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

import make_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "vernier"
PARTS = ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "requirements.txt", "cmake",
         "include", "python", "src", "tools/build_backend.py", "tools/make_wheel.py")
CMAKE = (3, 25)  # cmake_minimum_required of CMakeLists.txt
COMPILERS = ("c++", "g++", "clang++")
EARLIEST = 315532800  # 1980-01-01, as in make_wheel.py
APT = "On Debian and Ubuntu: apt-get install --no-install-recommends"


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(vernier VERSION ([\d.]+)", text, re.M).group(1)


# ---- the sdist

def sources():
    """The files of PARTS that git knows; where there is no repository, as in an sdist, all."""
    if (ROOT / ".git").exists():
        names = subprocess.run(["git", "ls-files", "-z", "--", *PARTS], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split("\0")
        return sorted(name for name in names if name and (ROOT / name).is_file())
    paths = [path for part in PARTS
             for path in ([ROOT / part] if (ROOT / part).is_file() else (ROOT / part).rglob("*"))]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths
                  if path.is_file() and "__pycache__" not in path.parts)


def build_sdist(sdist_directory, config_settings=None):
    del config_settings
    top = f"{NAME}-{version()}"
    files = [(name, (ROOT / name).read_bytes(), os.access(ROOT / name, os.X_OK))
             for name in sources()]
    files.append(("PKG-INFO", make_wheel.metadata(NAME, version()), False))
    written = pathlib.Path(sdist_directory, f"{top}.tar.gz")
    written.parent.mkdir(parents=True, exist_ok=True)
    with open(written, "wb") as file, \
            gzip.GzipFile("", "wb", fileobj=file, mtime=EARLIEST) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data, program in files:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime = len(data), EARLIEST
            entry.mode = 0o755 if program else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return written.name


# ---- the wheel

def nanobind_pin():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("nanobind=="))


def has_cmake():
    if shutil.which("cmake") is None:
        return False
    done = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    return found is not None and tuple(map(int, found.groups())) >= CMAKE


def get_requires_for_build_sdist(config_settings=None):
    del config_settings
    return []


def get_requires_for_build_wheel(config_settings=None):
    """nanobind; CMake and Ninja only where the system has none, or too old a one."""
    del config_settings
    needed = [nanobind_pin()]
    if not has_cmake():
        needed.append("cmake>=" + ".".join(map(str, CMAKE)))
    if shutil.which("ninja") is None:
        needed.append("ninja")
    return needed


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    del config_settings
    for name, data in make_wheel.information(NAME, version()):
        path = pathlib.Path(metadata_directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return path.parent.name


def check_tools():
    """Ends with one message that names everything missing which CMake would not name."""
    missing, packages = [], []
    if not os.environ.get("CXX") and not any(map(shutil.which, COMPILERS)):
        missing.append(f"a C++ compiler ({', '.join(COMPILERS)}, or the one that CXX names)")
        packages.append("g++")
    if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
        missing.append(f"the headers of {sys.executable}")
        packages.append("python3-dev")
    if not has_cmake():
        missing.append("CMake " + ".".join(map(str, CMAKE)))
        packages.append("cmake")
    if shutil.which("ninja") is None:
        missing.append("Ninja")
        packages.append("ninja-build")
    text = f"Not found: {', '.join(missing)}.\n{APT} {' '.join(packages)}" if missing else ""
    if importlib.util.find_spec("nanobind") is None:
        text += f"\nNot found: {nanobind_pin()}; without --no-build-isolation pip installs it."
    if text:
        sys.exit(f"vernier: error: {text.strip()}")


def configure(folder, config_settings=None):
    """Configures the build of the wheel in `folder`. The setting `cmake` has more arguments."""
    extra = (config_settings or {}).get("cmake", [])
    extra = shlex.split(extra if isinstance(extra, str) else " ".join(extra))
    check_tools()
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release",
         "-DVERNIER_TESTS=OFF", "-DVERNIER_BENCH=OFF", "-DVERNIER_WARNINGS_AS_ERRORS=OFF",
         f"-DVERNIER_PYTHON={sys.executable}", *extra],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        sys.exit("vernier: error: CMake could not configure the build; the reason is above")
    reason = re.search("No Python package: (.*)", done.stdout)
    if reason:
        sys.exit(f"vernier: error: {reason.group(1)}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """CMAKE_BUILD_PARALLEL_LEVEL limits the compilers that run at a time, each of up to 1.5 GB."""
    del metadata_directory
    with tempfile.TemporaryDirectory() as folder:
        configure(folder, config_settings)
        build = ["cmake", "--build", folder, "--target", "wheel"]
        if subprocess.run(build, check=False).returncode != 0:
            sys.exit("vernier: error: the build failed; the reason is above")
        made, = pathlib.Path(folder, "wheel").glob("*.whl")
        shutil.copy(made, wheel_directory)
        return made.name


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(pathlib.Path(sys.argv[1], build_sdist(sys.argv[1])))
