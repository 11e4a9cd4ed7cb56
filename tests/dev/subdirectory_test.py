#!/usr/bin/env python3
"""The source tree inside another project: add_subdirectory(vernier).

Usage: subdirectory_test.py CMAKE SOURCE_FOLDER MODEL.onnx [--build] [-DVERNIER_...=...]
Configures a project whose programs link vernier::vernier and vernier::runtime, and checks that it
gets the public headers and nothing else: no warnings, tests, install rules or output folders, and
for the runtime alone no file of the compiler. Compiles the programs' sources. --build (./dev test
--all) also builds both programs, which takes minutes, and runs them.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile

from package_test import demand, run, use

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(other LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
enable_testing()
add_subdirectory("{source}" vernier)
add_executable(embed embed.cpp)
target_link_libraries(embed PRIVATE vernier::vernier)
add_executable(run_only run_only.cpp)
target_link_libraries(run_only PRIVATE vernier::runtime)
install(TARGETS run_only)
"""
PROGRAMS = ("embed", "run_only")
OURS = ("-W", "-D", "-f", "-U")  # flags of cmake/options.cmake and cmake/hardening.cmake


def check_compilation(source, build):
    """The flags of the other project's own files; compiles them without output."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    own = [entry for entry in entries if pathlib.Path(entry["file"]).parent == build.parent]
    demand(len(own) == len(PROGRAMS), f"{len(own)} files of the project are compiled")
    for entry in own:
        file = pathlib.Path(entry["file"])
        flags = shlex.split(entry["command"])
        ours = [flag for flag in flags[1:] if flag.startswith(OURS)]
        demand(not ours, f"{file.name} is compiled with flags of Vernier's: {ours}")
        folders = [flag[2:] for flag in flags if flag.startswith("-I")]
        folders += [flags[at + 1] for at, flag in enumerate(flags) if flag == "-isystem"]
        demand(folders == [str(source / "include")], f"{file.name} gets the folders {folders}")
        run(*flags, "-fsyntax-only", cwd=entry["directory"])


def check_build_files(build):
    rules = (build / "build.ninja").read_text(encoding="utf-8")
    for program in PROGRAMS:
        demand(f"\nbuild {program}: CXX_EXECUTABLE_LINKER" in rules,
               f"the program {program} is not at the root of its project's build folder")
    extra = re.findall(r"^build ((?:test|bench|fuzz)_\w+|wheel|operators_doc): phony", rules, re.M)
    demand(not extra, f"the project gets targets that only Vernier needs: {extra}")
    demand(not (build / "CPackConfig.cmake").exists(), "the project gets Vernier's package")
    for script in (build / "vernier").rglob("cmake_install.cmake"):
        demand("file(INSTALL" not in script.read_text(encoding="utf-8"), f"{script} installs files")


def check_runtime(build):
    ninja = shutil.which("ninja")
    commands = {name: run(ninja, "-C", build, "-t", "commands", name) for name in PROGRAMS}
    demand("/src/onnx/" in commands["embed"], "vernier::vernier has no compiler")
    demand("/src/runtime/" in commands["run_only"], "vernier::runtime has no runtime")
    for folder in ("onnx", "passes", "plan", "compile", "verify"):
        demand(f"/src/{folder}/" not in commands["run_only"],
               f"vernier::runtime needs src/{folder} to be built")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--build" and not a.startswith("-D")]
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    options = [a for a in sys.argv[1:] if a.startswith("-D")]
    cmake, source, model = arguments[0], *(pathlib.Path(a).resolve() for a in arguments[1:])
    ccache = shutil.which("ccache")
    if ccache:
        options.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        other = folder / "other"
        other.mkdir()
        (other / "CMakeLists.txt").write_text(PROJECT.format(source=source), encoding="utf-8")
        for program in PROGRAMS:
            shutil.copy(source / "examples" / "embed" / f"{program}.cpp", other)
        build = other / "build"
        run(cmake, "-G", "Ninja", "-S", other, "-B", build, *options)
        check_compilation(source, build)
        check_build_files(build)
        check_runtime(build)
        tests = run("ctest", "--test-dir", build, "-N")
        demand("Total Tests: 0" in tests, f"the project gets tests:\n{tests}")
        if "--build" not in sys.argv:
            print("SKIP building the libraries: './dev test --all' does it; the rest works")
            return 0
        run(cmake, "--build", build, "-j", os.environ.get("JOBS", str(os.cpu_count())),
            "--target", *PROGRAMS)
        use(build / "embed", build / "run_only", model, folder, os.environ)
        print("Vernier works inside another project")
    return 0


if __name__ == "__main__":
    sys.exit(main())
