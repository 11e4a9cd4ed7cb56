#!/usr/bin/env python3
"""Every command of README.md, or with --docs of docs/*.md, runs here as it is written, in a folder
that has what a reader has (READER), or is listed below with the reason why not (NOT_RUN).

Usage: documents_test.py PROGRAM SOURCE_FOLDER [--docs] [NAME]...    NAME: only these documents

What a fence holds is its language: `sh` commands; `console` commands behind "$ " and what they
print, whose verdict must come again; `usage` synopses, each option of which --help must have;
`text` neither. Those of another language are listed in ELSEWHERE. Options of `vernier …` in a line
of text must exist, too. A command that is neither run nor listed, a list entry that no document
has, and a fence without a language fail.
"""
import argparse
import base64
import contextlib
import io
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
MODEL = "tests/models/bge_reranker_ts17"
RUNS = ("vernier ", "build/release/")  # what a command that runs here may begin with

# What lies in the reader's folder: commands that make it, first for all documents.
MADE = "vernier make-model xlmr -o {} --layers 1 --hidden 64 --heads 4 --vocab 1000 --positions 514"
READER = {
    "": [f"cp {MODEL}/model.onnx model.onnx", "vernier build model.onnx -o model.vn",
         *(f"cp model.onnx {name}.onnx" for name in ("m", "MODEL", "reranker", "embedder")),
         *(f"cp model.vn {name}.vn" for name in ("m", "ENGINE", "old", "new", "int8"))],
    "custom_kernels.md": [
        "cp build/release/examples/custom_layer_norm/custom_layer_norm.so libmine.so"],
    "measuring.md": [MADE.format("MODEL.onnx"), "vernier build MODEL.onnx -o ENGINE.vn"],
    "migrating_from_polygraphy.md": ["vernier run model.vn --inputs in.json -o out.json"],
    "migrating_from_tensorrt.md": [MADE.format("model.onnx")],
    "quantization.md": ["vernier calibrate m.onnx --data batches/ -o first.json",
                        "vernier build m.onnx -o first.vn --int8 --scales first.json --static "
                        "--export-qdq quantized.onnx"],
}

STEP = "it is a step of .ci/run"
# reason: commands. The names of tests are ctest's.
NOT_RUN = {
    "it builds and runs the tests, this one among them": ["./dev test", "./dev test -R Softmax",
                                                          "./dev test --all", ".ci/run"],
    STEP: ["./dev build", "./dev demo", "./dev gpu", "./dev wheel"],
    "a step of .ci/run makes the wheel; ctest python.package and python.portable install it": [
        "./dev wheel && pip install build/wheel/vernier-*.whl",
        "pip install build/wheel/vernier-*.whl"],
    "it needs other versions of Python": ["./dev wheel --python python3.10 --python python3.12"],
    "it compiles all kernels for GPUs": ["./dev wheel --cuda", "./dev gpu --pack FILE"],
    "it needs a GPU": [
        "./dev gpu --all", "./dev gpu --programs FILE", "./dev bench --device cuda",
        "build/cuda/tests/test_backend_cuda --time Softmax",
        "build/cuda/verify_seeds 2 MODEL.onnx --device cuda --lengths 100,128",
        "python3 tools/parity_table.py --device cuda --program build/cuda/vernier",
        "vernier build m.onnx -o m.vn --fp8 --device cuda"],
    "ctest dev.package_test and dev.debian_package_test run it": [
        "cmake --install build/release --prefix /opt/vernier",
        "cpack --config build/release/CPackConfig.cmake -B build/package"],
    "it times, for minutes": [
        "./dev bench", "./dev bench --busy",
        "./dev bench --peers --quick --models base --cells b1s128,b8s128 --rounds 10",
        "./dev bench --against OTHER/vernier",
        "./dev bench --openvino --models mini,base", "build/release/bench/bench_kernels",
        "build/release/bench/bench_dispatch",
        "build/release/bench/bench_busy ENGINE.vn --sessions 16 --soak --seconds 600"],
    "it reads or fuzzes all sources": [
        "./dev lint", "./dev fuzz 150", "./dev fuzz --formats 100", "./dev fuzz --coverage 150"],
    "it builds a program that takes long; ctest dev.fuzz_long_test and verify.planted_defects run "
    "less of them": [
        "ninja -C build/asan vernier_fuzz_long",
        "build/asan/vernier_fuzz_long run --count 20000 --seed 1 --state run.state --found found/",
        "ninja -C build/release verify_seeds",
        "build/release/verify_seeds 25 tests/models/*/model.onnx",
        "build/release/tests/planted_defects --drawn 50",
        "build/release/tests/planted_defects --proportional"],
    "it verifies all models in all modes and rewrites the document": [
        "python3 tools/parity_table.py"],
    "it needs Polygraphy": [
        "polygraphy run model.onnx --onnxrt --save-inputs in.json --save-outputs out.json",
        "polygraphy run model.onnx --onnxrt --load-inputs in.json --load-outputs vernier.json"],
    "ctest python.package runs every command of the tutorial": ["docs/tutorial.md"],
}

# Fences of other languages: (document, language): who runs them, or why nobody does.
ELSEWHERE = {
    ("README.md", "python"): "tests/python/build_test.py",
    ("README.md", "cpp"): "run_cpp() below",
    ("tutorial.md", "python"): "tests/python/tutorial_test.py",
    ("python.md", "python"): "lines with … for what is the reader's; tests/python has them whole",
    ("unpadding.md", "python"): "lines with the reader's arrays; tests/python/run_test.py",
    ("unpadding.md", "cpp"): "a line with the reader's arrays; tests/runtime",
    ("cpp_package.md", "cmake"): "ctest dev.package_test and dev.subdirectory_test",
    ("json.md", "json"): "what a command prints", ("precision.md", "json"): "a file",
    **{(f"adding_{name}.md", "cpp"): "parts of sources"
       for name in ("a_check", "a_kernel", "a_pass", "an_operator")},
}


class Failure(Exception):
    """What is wrong with a document, in one line or with what a command printed."""


def array_file(values, shape=None):
    """The bytes of an .npy file of int64."""
    shape = shape or (len(values),)
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(values)}q", *values))


def write_arrays(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name + ".npy", data)


def write_inputs(folder, source):
    """The reader's data: stored cases under the model's names, and what tasks add to them."""
    (folder / "batches").mkdir()
    (folder / "dev").mkdir()
    for number in range(3):
        with zipfile.ZipFile(source / MODEL / f"case_{number}.npz") as stored:
            files = {name: stored.read(name) for name in stored.namelist()}
        parts = {start: {name[len(start):-4]: data for name, data in files.items()
                         if name.startswith(start)} for start in ("in.", "out.")}
        for name in (f"batches/{number}.npz", "in.npz", "IN.npz", "yours.npz", "dev/0.npz"):
            write_arrays(folder / name, parts["in."])
    rows = re.search(rb"'shape': \((\d+),", parts["out."]["output"])[1]
    write_arrays(folder / "dev.npz", {"labels": array_file(list(range(int(rows))))})
    write_arrays(folder / "packed.npz", {"input_ids": array_file([0, 17, 2, 0, 23, 9, 2]),
                                         "cu_seqlens": array_file([0, 3, 7])})
    arrays = {name: {"array": base64.b64encode(data).decode(), "polygraphy_class": "ndarray"}
              for name, data in parts["in."].items()}
    (folder / "in.json").write_text(repr([arrays]).replace("'", '"'), encoding="utf-8")
    (folder / "lengths.txt").write_text("".join(f"{4 + 7 * i % 60}\n" for i in range(64)))
    values = set(re.findall(r"/m/[\w./]+_output_\d+", (source / MODEL / "model.onnx").read_bytes()
                            .decode("latin-1")))
    (folder / "m.cache").write_text("TRT-8601-EntropyCalibration2\n" + "".join(
        f"{value}: 3d010a14\n" for value in sorted(values)))


class Reader:
    """A folder with the reader's files and the source tree's; runs commands in it."""

    def __init__(self, folder, program, source, document):
        self.folder, self.program = folder, program
        for name in ("tests", "examples", "tools"):
            (folder / name).symlink_to(source / name)
        (folder / "build").mkdir()
        (folder / "build" / "release").symlink_to(program.parent)
        programs = [str(program.parent), str(source / ".venv" / "bin"), os.environ["PATH"]]
        self.environment = dict(os.environ, PATH=":".join(programs))
        write_inputs(folder, source)
        for command in READER[""] + READER.get(document, []):
            self.run(command)

    def run(self, command, code=0):
        """What it prints. A line `name=value` holds for the commands behind it."""
        assigned = re.fullmatch(r"(\w+)=(\S+)", command)
        if assigned:
            self.environment[assigned[1]] = assigned[2]
            return ""
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, check=False, timeout=600,
                              stdin=subprocess.DEVNULL)
        if done.returncode != code:
            raise Failure(f"{command}\n  exit code {done.returncode}, expected {code}\n"
                          f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def has_onnxruntime(self):
        with contextlib.suppress(Failure):
            self.run("python3 -c 'import onnxruntime, numpy'")
            return True
        return False

    def help_of(self, command):
        done = subprocess.run([self.program, command, "--help"], capture_output=True, text=True,
                              check=False)
        return done.stdout if done.returncode == 0 else ""


def lines_of(body):
    """The logical lines: what `\\` continues is joined, comments are left out."""
    joined = re.sub(r" *\\\n *", " ", body)
    lines = (re.sub(r"(^|\s+)# .*$", "", line).rstrip() for line in joined.splitlines())
    return [line for line in lines if line]


def commands_of(language, body):
    """(command, verdict that it prints or None) of a fence."""
    if language == "sh":
        return [(line.strip(), None) for line in lines_of(body)]
    found = []
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *shown = re.sub(r" *\\\n *", " ", part).splitlines()
        verdicts = [line.split()[1] for line in shown if line.startswith("verdict: ")]
        found.append((command, verdicts[0] if verdicts else None))
    return found


def check_options(reader, synopsis):
    """Every option of `vernier COMMAND …` is in that command's help."""
    words = synopsis.split()
    if len(words) < 2 or not re.fullmatch(r"[a-z][a-z-]*", words[1]):
        return
    text = reader.help_of(words[1])
    if not text:
        raise Failure(f"there is no command: {' '.join(words[:2])}")
    for option in OPTION.findall(re.sub(r"'[^']*'", "", synopsis)):
        if not re.search(rf"(?<![\w-]){option}(?![\w-])", text):
            raise Failure(f"vernier {words[1]} has no option {option}: {synopsis}")


def check_text(reader, text):
    for span in SPAN.findall(FENCE.sub("", text)):
        span = " ".join(span.split())
        if span.startswith("vernier "):
            check_options(reader, span.split(" && ")[0].split("; ")[0])


def run_cpp(reader, source, body):
    """Builds and runs the example of README.md; where there is no shared library, only compiles."""
    includes, rest = body.rsplit("#include", 1)
    header, statements = rest.split("\n", 1)
    (reader.folder / "example.cpp").write_text(
        f"{includes}#include{header}\n#include <iostream>\n"
        "void use(auto&& name, auto&&) { std::cout << name << '\\n'; }\n"
        f"int main() {{\n{statements}}}\n", encoding="utf-8")
    compiler = f"c++ -std=c++20 -I {source}/include example.cpp"
    if not (reader.program.parent / "libvernier.so").exists():
        reader.run(f"{compiler} -fsyntax-only")
        return "compiled; this build has no shared library to run it with"
    reader.run(f"{compiler} -o example -L build/release -lvernier -lvernier_runtime "
               "-Wl,-rpath,build/release")
    if reader.run("./example") != "output\n":
        raise Failure("README.md: the C++ example did not print the name of its output")
    return "built and run"


class Documents:
    def __init__(self, program, source):
        self.program, self.source = program, source
        self.listed = {command: reason for reason, commands in NOT_RUN.items()
                       for command in commands}
        self.seen, self.ran, self.failures = set(), 0, []

    def not_run(self, where, command):
        """Whether it is listed; prints the reason."""
        if command in self.listed:
            self.seen.add(command)
            print(f"{where}: not run: {command}: {self.listed[command]}")
        elif not command.startswith(RUNS) and not re.fullmatch(r"\w+=\S+", command):
            raise Failure(f"{command}\n  neither runs here nor is listed with a reason in NOT_RUN "
                          "of tests/dev/documents_test.py")
        return command in self.listed

    def check(self, path):
        name, text = path.name, path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            reader = Reader(pathlib.Path(folder), self.program, self.source, name)
            pieces = [(text.count("\n", 0, fence.start()) + 1, fence[2], fence[3])
                      for fence in FENCE.finditer(text)]
            if name == "README.md":  # commands in a sentence, too
                pieces += [(text.count("\n", 0, span.start()) + 1, "sh", span[1])
                           for span in SPAN.finditer(FENCE.sub(lambda m: "\n" * m[0].count("\n"),
                                                               text))
                           if span[1].startswith("./dev ")]
            for line, language, body in pieces:
                self.guarded(f"{path.name}:{line}", self.piece, reader, name, language, body)
            self.guarded(name, lambda where: check_text(reader, text))

    def guarded(self, where, function, *arguments):
        try:
            function(where, *arguments)
        except Failure as failure:
            self.failures.append(where)
            print(f"FAILED {where}: {failure}")

    def piece(self, where, reader, name, language, body):
        if language == "usage":
            for synopsis in re.split(r"\n(?=vernier)", body):
                check_options(reader, " ".join(synopsis.split("   (")[0].split()))
        elif language in ("sh", "console"):
            for command, verdict in commands_of(language, body):
                if not self.not_run(where, command):
                    self.guarded(where, self.command, reader, command, verdict)
        elif name == "README.md" and language == "cpp":
            print(f"{where}: the C++ example: {run_cpp(reader, self.source, body)}")
        elif not language:
            raise Failure("a fence without a language: sh, console, usage, text or another one")
        elif language != "text" and (name, language) not in ELSEWHERE:
            raise Failure(f"a fence of '{language}' that ELSEWHERE does not list")

    def command(self, where, reader, command, verdict):
        if "--also onnxruntime" in command and not reader.has_onnxruntime():
            print(f"{where}: SKIP {command}: python3 has no onnxruntime")
            return
        out = reader.run(command, 0 if verdict in (None, "pass") else 1)
        if verdict and not re.search(rf"^verdict: {verdict}\b", out, re.MULTILINE):
            raise Failure(f"{command}\n  did not print 'verdict: {verdict}'\n{out[-2000:]}")
        self.ran += 1
        print(f"{where}: ran: {command}", flush=True)


def check_steps(source):
    steps = (source / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    for command in NOT_RUN[STEP]:
        if f"step {command}" not in steps:
            sys.exit(f"{command} is not a step of .ci/run, as NOT_RUN says")


def check_the_check(program, source):
    """What must fail does: a new command, one that fails, an option or a fence like no other."""
    wrong = ["```\nvernier --version\n```\n", "```sh\n./dev polish\n```\n", "`./dev polish`",
             "```sh\nvernier build missing.onnx -o m.vn\n```\n", "```ruby\nputs\n```\n",
             "```usage\nvernier build MODEL.onnx [--best-of-all]\n```\n", "`vernier run --fast`",
             "```console\n$ vernier verify m.vn --model m.onnx --quick\nverdict: bug\n```\n"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "README.md")
        for text in wrong:
            path.write_text(text, encoding="utf-8")
            documents = Documents(program, source)
            with contextlib.redirect_stdout(io.StringIO()):
                documents.check(path)
            if not documents.failures:
                sys.exit(f"passed, and must not:\n{text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    source, program = options.source.resolve(), options.program.resolve()
    if options.docs:
        paths = sorted((source / "docs").glob("*.md"))
    else:
        paths = [source / "README.md"]
        check_the_check(program, source)
        check_steps(source)
    documents = Documents(program, source)
    for path in paths:
        if options.names and path.name not in options.names:
            continue
        if f"docs/{path.name}" in documents.listed:
            documents.not_run(path.name, f"docs/{path.name}")
        else:
            documents.check(path)
    if options.docs and not options.names:
        readme = (source / "README.md").read_text(encoding="utf-8")
        for command in documents.listed:
            if command not in documents.seen and command not in readme:
                documents.failures.append(command)
                print(f"FAILED: no document has the command of NOT_RUN: {command}")
    print(f"{documents.ran} commands ran, {len(documents.seen)} are listed, "
          f"{len(documents.failures)} failed")
    return 1 if documents.failures else 0


if __name__ == "__main__":
    sys.exit(main())
