#!/usr/bin/env python3
"""Times Vernier beside PyTorch on one GPU, in one run: same weights, same inputs, outputs compared.

    ./dev bench --device cuda                       large, base and minilm in fp16
    ./dev bench --device cuda --models base --types fp16,fp32 --cells b1s128,mixed
    ./dev bench --device cuda --models large --types fp16,bf16,tf32,fp32 --compile b1s128
    ./dev bench --device cuda --models large --types fp16,int8 --cells b32s512,b1s128
    python3 bench/peers/gpu.py --check --vernier build/release/vernier     tiny models on the CPU

Needs torch, onnx and numpy in this interpreter. The table comes last; how to read it, and what is
measured how: docs/measuring.md "GPU". The JSON is written after every cell, so that a run that is
ended early keeps what it has. Exit 1 if something failed, answers are wrong, a row's bits depend on
its batch, or a second build gives other bytes.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import filecmp
import importlib
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time

import numpy

import report
import report_gpu
from engines import BUILT_FOR, MODELS, Program, make_inputs, working_folder

torch_peer = None  # imported by main(): it takes seconds, and models are written meanwhile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = ["fp16", "bf16", "tf32", "fp32", "int8", "fp8"]
CHECK_SIZES = {"layers": 3, "hidden": 64, "heads": 4, "ffn": 192, "vocab": 500}
CHECK_CELLS = ["b3s40", "b1s17"]
COMPARED = {"rows": 64, "longest": 128}
BATCHES = (1, 4, COMPARED["rows"])  # whose rows must have the same bits
HOST_BOUND_TOKENS = 1024  # smaller cells wait until nothing else runs on the host


def first_rows(inputs, rows):
    return {name: array[:rows] for name, array in inputs.items()}


def compared_inputs(name, vocabulary):
    """Rows of random lengths. The first four are padded alike in every batch."""
    generator = random.Random(1)
    lengths = [generator.randint(1, COMPARED["longest"] - 1) for _ in range(COMPARED["rows"])]
    return make_inputs(name, vocabulary, lengths, COMPARED["longest"])


def rows_equal(answers):
    """`answers` by number of rows: has every row the same bits in all of them?"""
    largest = answers[max(answers)]
    return all(array.tobytes() == largest[:rows].tobytes() for rows, array in answers.items())


def first_equal(answers):
    """Has the first row the same bits alone as among four?"""
    return answers[1][0].tobytes() == answers[4][0].tobytes()


def vernier_summary(windows):
    """As report.summary(), of windows of which the medians are known."""
    medians = [window["median_ms"] for window in windows]
    return {"median_ms": statistics.median(medians), "window_medians_ms": medians,
            "drift": max(medians) / min(medians) - 1, "runs": sum(w["runs"] for w in windows),
            "host_median_ms": statistics.median(window["host_ms"] for window in windows)}


@contextlib.contextmanager
def watched(result, what):
    """A failure inside is told and stored; the rest is still measured."""
    try:
        yield
    except Exception as error:  # PyTorch's too, of any kind
        text = f"{what}: {type(error).__name__}: {error}"
        result["failures"].append(text)
        print(text, file=sys.stderr, flush=True)


class Comparison:
    """One model in one type: PyTorch's module and Vernier's engine."""

    def __init__(self, peer, name, kind, bench):
        self.peer, self.name, self.kind, self.bench = peer, name, kind, bench
        self.program, self.options, self.result = bench.program, bench.options, bench.result
        usual = MODELS[name].cells if kind == "fp16" else MODELS[name].others
        self.cells = self.options.cells or usual
        self.sizes = self.result["models"][name]
        self.entry = {"model": name, "type": kind}
        self.result["engines"].append(self.entry)

    def watched(self, what):
        return watched(self.result, f"{self.name} {self.kind} {what}")

    def build(self):
        """Builds the engine, and runs it once: the first result after a cold start."""
        build = self.entry["build"] = self.program.build(self.name, self.kind, self.cells)
        inputs = first_rows(compared_inputs(self.name, self.sizes["vocab"]), 1)
        start = time.perf_counter()
        self.program.answers(self.program.engine(self.name, self.kind), inputs)
        build["first_result_s"] = build["seconds"] + time.perf_counter() - start

    def build_again(self):
        """From the tuning record: the same bytes?"""
        with self.watched("second build"):
            again = self.program.build(self.name, self.kind, self.cells, ".again")
            first = self.program.engine(self.name, self.kind)
            second = self.program.engine(self.name, self.kind, ".again")
            self.entry["build"]["again_s"] = again["seconds"]
            self.entry["build"]["same_bytes"] = filecmp.cmp(first, second, shallow=False)
            second.unlink()

    def errors(self, truth, answer):
        """{"max_abs", "worst", "rms", "rows_equal"} of `answer`, inputs → outputs."""
        inputs = compared_inputs(self.name, self.sizes["vocab"])
        answers = {rows: answer(first_rows(inputs, rows)) for rows in BATCHES}
        found = report_gpu.errors(answers[COMPARED["rows"]].ravel().tolist(),
                                  truth.ravel().tolist())
        return {**found, "rows_equal": rows_equal(answers), "first_equal": first_equal(answers)}

    def compare(self, truth):
        engine = self.program.engine(self.name, self.kind)
        found = {"rows": COMPARED["rows"],
                 "pytorch": self.errors(truth, lambda inputs: self.peer.answers(self.kind, inputs)),
                 "vernier": self.errors(truth, lambda inputs: self.program.answers(engine, inputs))}
        self.entry["accuracy"] = found

    def window(self, subject, inputs):
        if subject == "pytorch":
            return self.peer.window(self.kind, inputs, self.options.timing)
        return self.program.window(self.program.engine(self.name, self.kind), inputs,
                                   self.options.timing)

    def measure(self, cell):
        """One cell in rounds: a window of each subject, forwards and backwards in turn."""
        lengths = report_gpu.cell_lengths(cell)
        inputs = make_inputs(self.name, self.sizes["vocab"], lengths)
        entry = {"model": self.name, "cell": cell, "type": self.kind, "rows": len(lengths),
                 "tokens": sum(lengths), "flops": report_gpu.flops(self.sizes, lengths)}
        self.result["cells"].append(entry)
        windows = {"pytorch": []}
        if "accuracy" in self.entry:  # else there is nothing that runs
            windows["vernier"] = []
        for turn in range(self.options.rounds):
            for subject in windows if turn % 2 == 0 else reversed(windows):
                if len(windows[subject]) < turn:
                    continue  # it failed before
                with self.watched(f"{cell} {subject}"):
                    windows[subject].append(self.window(subject, inputs))
        for subject, summary in (("pytorch", report.summary), ("vernier", vernier_summary)):
            if windows.get(subject):
                entry[subject] = summary(windows[subject])
        with self.watched(f"{cell} floor"):
            products = torch_peer.Products(self.sizes, self.kind, lengths, self.options.device)
            entry["floor_ms"] = products.floor_ms(self.options.timing)
        torch_peer.release(self.options.device)

    def measure_compiled(self, entry):
        """torch.compile in a cell that was measured. It takes long, and so comes last."""
        cell = entry["cell"]
        inputs = make_inputs(self.name, self.sizes["vocab"], report_gpu.cell_lengths(cell))
        with self.watched(f"{cell} torch.compile"):
            entry["compiled"] = self.peer.compiled(self.kind, inputs, self.options.timing)
        torch_peer.release(self.options.device)

    def is_late(self, what):
        if time.monotonic() <= self.options.stop_at:
            return False
        self.result["failures"].append(f"{self.name} {self.kind} {what}: no time was left")
        return True

    def run(self, truth, background):
        """All there is to tell. The second build runs beside the larger cells."""
        again = None
        with self.watched("build"):
            self.build()
            if not self.options.build_once:
                again = background.submit(self.build_again)
            self.compare(truth)
        self.bench.write()
        for cell in self.cells:
            tokens = sum(report_gpu.cell_lengths(cell))
            if again and tokens < HOST_BOUND_TOKENS:
                again.result()
            if not self.is_late(cell):
                self.measure(cell)
                self.bench.write()
        if again:
            again.result()
        for entry in self.bench.cells_of(self.name, self.kind):
            if entry["cell"] in self.options.compile and not self.is_late("torch.compile"):
                self.measure_compiled(entry)
                self.bench.write()


class Bench:
    """The whole run."""

    def __init__(self, options, program):
        self.options, self.program = options, program
        self.result = surroundings(options)

    def cells_of(self, name, kind):
        return [cell for cell in self.result["cells"]
                if (cell["model"], cell["type"]) == (name, kind)]

    def compare_model(self, name, background):
        sizes = self.result["models"][name]
        peer = torch_peer.Peer(self.program.model(name), sizes["heads"], self.options.device)
        truth = peer.answers("fp64", compared_inputs(name, sizes["vocab"]))
        for kind in self.options.types:
            Comparison(peer, name, kind, self).run(truth, background)
            self.program.engine(name, kind).unlink(missing_ok=True)

    def run(self, made, background):
        """`made`: by name, the models that are being written."""
        self.result["ceilings"] = torch_peer.ceilings(
            self.options.types, self.options.timing, self.options.device)
        for name, model in made.items():
            with watched(self.result, name):
                self.result["models"][name] = model.result()
                self.compare_model(name, background)
        self.write()

    def write(self):
        self.options.output.parent.mkdir(parents=True, exist_ok=True)
        self.options.output.write_text(json.dumps(self.result, indent=1) + "\n", encoding="utf-8")


def output(*command):
    """The first line that a program prints, "?" where it cannot be asked."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "?"
    return done.stdout.strip().partition("\n")[0] or "?"


def shown(arguments):
    """The command as others can run it: VERNIER for the program's path, no --output."""
    made = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    made.add_argument("--vernier")
    made.add_argument("--output")
    known, others = made.parse_known_args(arguments)
    return " ".join(["bench/peers/gpu.py", *(["--vernier VERNIER"] if known.vernier else []), *others])


def surroundings(options):
    """What a reader needs to judge the figures."""
    return {
        "command": shown(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"device": torch_peer.machine(options.device), "cores": os.cpu_count(),
                    "driver": output("nvidia-smi", "--query-gpu=driver_version",
                                     "--format=csv,noheader"),
                    "load": round(os.getloadavg()[0], 1)},
        "versions": {"vernier": output(str(options.vernier), "--version"),
                     "commit": output("git", "describe", "--always", "--dirty"),
                     "numpy": numpy.__version__, "python": platform.python_version(),
                     **torch_peer.versions()},
        "settings": {"rounds": options.rounds, "seconds_per_window": options.seconds,
                     "pause_ms": options.pause,
                     "warm_up_runs": torch_peer.WARM_UP_RUNS,
                     "least_runs_per_window": torch_peer.LEAST_RUNS, "built_for": BUILT_FOR,
                     "compared": COMPARED, "most_error": report_gpu.MOST_ERROR,
                     "mixed_lengths": report_gpu.cell_lengths("mixed")},
        "ceilings": {}, "models": {}, "engines": [], "cells": [], "failures": [],
    }


def print_result(result):
    """The table last. A check has none: its times mean nothing."""
    limits, timed = result["ceilings"], result["machine"]["device"] != "cpu"
    rates = ", ".join(f"{kind} {rate:.0f}" for kind, rate in limits["tflops"].items())
    if timed:
        print(f"{result['machine']['device']}: copy {limits['copy_gb_per_s'] / 1e3:.2f} TB/s; "
              f"{limits['product_size']}^3 product, TFLOP/s: {rates}")
    if timed and result["settings"]["pause_ms"]:
        print(f"{result['settings']['pause_ms']:g} ms of rest before each run")
    for engine in result["engines"]:
        print("\n".join(report_gpu.engine_lines(engine)))
    for cell in result["cells"] if timed else []:
        if cell is result["cells"][0]:
            print(report_gpu.HEAD)
        print(report_gpu.row(cell, limits["tflops"][cell["type"]]))
    for failure in result["failures"]:
        print(f"FAILED: {failure[:300]}")


def parser():
    made = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--models", default=",".join(MODELS), help="default: %(default)s")
    made.add_argument("--types", help=f"of {','.join(TYPES)}; default fp16")
    made.add_argument("--cells", help="such as b32s128,mixed; default: those with a goal")
    made.add_argument("--compile", default="", help="the cells that torch.compile runs too")
    made.add_argument("--rounds", type=int, default=2, help="windows of each subject")
    made.add_argument("--seconds", type=float, default=0.2, help="of a window")
    made.add_argument("--pause", type=float, default=0,
                      help="milliseconds of rest before each run; default: none, run after run")
    made.add_argument("--limit", type=float, default=float("inf"),
                      help="seconds after which no further cell is begun")
    made.add_argument("--build-once", action="store_true", help="no second build to compare")
    made.add_argument("--check", action="store_true", help="tiny models on the CPU, FP32")
    made.add_argument("--vernier", type=pathlib.Path, default=ROOT / "build" / "cuda" / "vernier",
                      help="the program; default: the preset cuda's")
    made.add_argument("--output", type=pathlib.Path,
                      help="JSON; default bench/results/peers_gpu.json (check: below build/)")
    return made


def chosen(line, option, text, known):
    names = text.split(",") if text else []
    for name in names:
        if name not in known:
            line.error(f"{option}: there is no '{name}'; there are {', '.join(known)}")
    return [name for name in known if name in names]


def parse():
    line = parser()
    options = line.parse_args()
    check = options.check
    options.stop_at = time.monotonic() + options.limit
    options.device = "cpu" if check else "cuda"
    options.vernier = options.vernier.resolve()
    options.models = chosen(line, "--models", options.models, list(MODELS))
    options.types = chosen(line, "--types", options.types or ("fp32" if check else "fp16"), TYPES)
    try:
        cells = options.cells.split(",") if options.cells else CHECK_CELLS if check else []
        options.cells = sorted(cells, key=lambda cell: -sum(report_gpu.cell_lengths(cell)))
    except ValueError as error:
        line.error(f"--cells: {error}")
    options.compile = options.compile.split(",") if options.compile else []
    if options.rounds < 1:
        line.error("--rounds: at least 1")
    if not 0 <= options.pause <= 1e5:
        line.error("--pause: 0 to 100000 milliseconds")
    options.output = options.output or (ROOT / "build" / "bench" / "check_gpu.json" if check else
                                        ROOT / "bench" / "results" / "peers_gpu.json")
    return options


def main():
    global torch_peer
    options = parse()
    sizes = CHECK_SIZES if options.check else {}
    with working_folder() as folder, concurrent.futures.ThreadPoolExecutor() as background:
        program = Program(options.vernier, folder, options.device)
        made = {name: background.submit(program.make, name, sizes) for name in options.models}
        torch_peer = importlib.import_module("torch_peer")
        options.timing = torch_peer.Timing(options.seconds, options.pause)
        bench = Bench(options, program)
        try:
            bench.run(made, background)
        except KeyboardInterrupt:
            bench.result["failures"].append("ended early")
    print_result(bench.result)
    code = report_gpu.verdict(bench.result)
    print("outputs agree" if code == 0 else "FAILED, see above")
    return code


if __name__ == "__main__":
    sys.exit(main())
