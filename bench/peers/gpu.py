#!/usr/bin/env python3
"""Times Vernier beside its peers on one GPU, in one run: same weights and inputs, outputs compared.

    ./dev bench --device cuda                       large, base and minilm in fp16
    ./dev bench --device cuda --models large --cells mixed,onelong --compile mixed --lengths squad
    ./dev bench --device cuda --models base --types fp16,fp32 --cells b1s128,mixed
    ./dev bench --device cuda --models large --types fp16,bf16,tf32,fp32 --compile b1s128
    ./dev bench --device cuda --models large --types fp16,int8 --cells b32s512,b1s128
    python3 bench/peers/gpu.py --check --vernier build/release/vernier     tiny models on the CPU

Needs torch, onnx and numpy in this interpreter, and onnxruntime-gpu for its columns. Peers: eager
PyTorch; in cells of mixed length PyTorch without padding (torch_unpadded.py); ONNX Runtime, padded
and in packing mode (ort_peer.py). Where one cannot run, a line says why. The table comes last; how
to read it, and what is measured how: docs/measuring.md "GPU". The JSON is written after every cell,
so that a run that is ended early keeps what it has. Exit 1 if something failed, answers are wrong,
a row's bits depend on its batch, or a second build gives other bytes.
"""
import argparse
import concurrent.futures
import datetime
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy

import offline
import ort_peer
import report_gpu
from engines import BUILT_FOR, MODELS, Program, working_folder

comparison = torch_peer = None  # imported by main(): it takes seconds, and models are written

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = ["fp16", "bf16", "tf32", "fp32", "int8", "fp8"]
CHECK_SIZES = {"layers": 3, "hidden": 64, "heads": 4, "ffn": 192, "vocab": 500}
CHECK_CELLS = ["b3s40", "40+3+1+17", "b1s17"]


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
        truth = peer.answers("fp64", comparison.compared_inputs(name, sizes["vocab"]))
        for kind in self.options.types:
            comparison.Comparison(peer, name, kind, self).run(truth, background)
            self.program.engine(name, kind).unlink(missing_ok=True)

    def run(self, made, background):
        """`made`: by name, the models that are being written."""
        self.result["ceilings"] = torch_peer.ceilings(
            self.options.types, self.options.timing, self.options.device)
        for name, model in made.items():
            with comparison.watched(self.result, name):
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
                     "onnxruntime": ort_peer.version(),
                     **torch_peer.versions()},
        "settings": {"rounds": options.rounds, "seconds_per_window": options.seconds,
                     "pause_ms": options.pause,
                     "warm_up_runs": torch_peer.WARM_UP_RUNS,
                     "least_runs_per_window": torch_peer.LEAST_RUNS, "built_for": BUILT_FOR,
                     "compared": comparison.COMPARED, "most_error": report_gpu.MOST_ERROR,
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
    for line in report_gpu.dense_lines(result["cells"]) if timed else []:
        print(line)
    for failure in result["failures"]:
        print(f"FAILED: {failure[:300]}")


def parser():
    made = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--models", default=",".join(MODELS), help="default: %(default)s")
    made.add_argument("--types", help=f"of {','.join(TYPES)}; default fp16")
    made.add_argument("--cells", help="such as b32s128,mixed,onelong,40+3+17; default: by model")
    made.add_argument("--compile", default="",
                      help="the cells that torch.compile runs too; without padding in those of "
                      "mixed length")
    made.add_argument("--lengths", default="", metavar="squad|FILE",
                      help=f"rows per second on {offline.ROWS} rows drawn from a histogram of "
                      "lengths (bench/peers/squad.txt)")
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


def mix_of(line, options):
    """--lengths, None without."""
    if not options.lengths:
        return None
    try:
        histogram = offline.histogram_of(options.lengths)
    except (OSError, ValueError) as error:
        line.error(f"--lengths: {error}")
    sizes = ((offline.CHECK_ROWS, offline.CHECK_BATCH) if options.check else
             (offline.ROWS, offline.BATCH))
    return offline.Mix(options.lengths, histogram, *sizes)


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
    options.mix = mix_of(line, options)
    if options.rounds < 1:
        line.error("--rounds: at least 1")
    if not 0 <= options.pause <= 1e5:
        line.error("--pause: 0 to 100000 milliseconds")
    options.output = options.output or (ROOT / "build" / "bench" / "check_gpu.json" if check else
                                        ROOT / "bench" / "results" / "peers_gpu.json")
    return options


def main():
    global comparison, torch_peer
    options = parse()
    sizes = CHECK_SIZES if options.check else {}
    with working_folder() as folder, concurrent.futures.ThreadPoolExecutor() as background:
        program = Program(options.vernier, folder, options.device)
        made = {name: background.submit(program.make, name, sizes) for name in options.models}
        torch_peer = importlib.import_module("torch_peer")
        comparison = importlib.import_module("comparison")
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
