#!/usr/bin/env python3
"""The installed C++ package: examples/embed is built and run against it alone.

Usage: package_test.py CMAKE BUILD_FOLDER SOURCE_FOLDER MODEL.onnx
Installs the build into a temporary folder, builds the example there with find_package and once
more with pkg-config, and checks that no header of src/ is on its path, that the libraries have a
version, that the runtime needs no protobuf, and that only Vernier's names are visible.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


# Functions, and what the compiler makes for types: "vtable for vernier::Error".
OURS = re.compile(r"(\w[\w ]* for )?(\w[\w ]* to )?vernier::")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def demand(met, text):
    if not met:
        sys.exit(text)


def library_folder(prefix):
    return next(path.parent for path in prefix.rglob("libvernier.so"))


def check_libraries(libraries):
    for name in ("libvernier", "libvernier_runtime"):
        demand((libraries / f"{name}.so").resolve().name.startswith(f"{name}.so.0."),
               f"{name}.so has no version")
        symbols = run("nm", "-DC", "--defined-only", libraries / f"{name}.so")
        names = [line.split(" ", 2)[-1] for line in symbols.splitlines()]
        others = [shown for shown in names if not OURS.match(shown)]
        demand(not others, f"{name}.so shows names that are not Vernier's: {others[:5]}")
    needed = run("readelf", "-d", libraries / "libvernier_runtime.so")
    demand("protobuf" not in needed, "the runtime needs protobuf")


def use(embed, run_only, model, folder, environment):
    engine = folder / "embed.vn"
    out = run(embed, model, engine, env=environment)
    demand("verdict: pass" in out and "output " in out, f"embed printed\n{out}")
    out = run(run_only, engine, env=environment)
    demand("output " in out, f"run_only printed\n{out}")


def check_includes(build, prefix):
    """The example's sources are compiled with the include folder of the tree and no other."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        folders = re.findall(r"(?:-I|-isystem) ?(\S+)", entry["command"])
        demand(folders == [str(prefix / "include")], f"{entry['file']} gets the folders {folders}")


def check_tree(cmake, prefix, source, model, folder):
    """An installed tree: its libraries, and the example built and run against it with find_package
    and with pkg-config."""
    demand("0." in run(prefix / "bin" / "vernier", "--version"), "the program does not run")
    libraries = library_folder(prefix)
    check_libraries(libraries)
    example = folder / "embed"  # a copy: nothing of the source tree is near it
    shutil.copytree(source / "examples" / "embed", example)
    build = folder / "build"
    run(cmake, "-S", example, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    check_includes(build, prefix)
    run(cmake, "--build", build)
    use(build / "embed", build / "run_only", model, folder, os.environ)
    if shutil.which("pkg-config") is None:
        print("SKIP pkg-config: it is not installed")
        return
    environment = {**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig"),
                   "LD_LIBRARY_PATH": str(libraries)}
    for program, package in (("embed", "vernier"), ("run_only", "vernier-runtime")):
        flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
        run(os.environ.get("CXX", "c++"), "-std=c++20", example / f"{program}.cpp", "-o",
            folder / f"{program}.program", *flags)
    use(folder / "embed.program", folder / "run_only.program", model, folder, environment)


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    cmake, build, source, model = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        run(cmake, "--install", build, "--prefix", prefix)
        check_tree(cmake, prefix, source, model, folder)
        print("the installed package works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
