#!/usr/bin/env python3
"""Times Vernier beside ONNX Runtime and beside the floor, FP32 on the CPU, in one run.

    ./dev bench --peers                 the whole grid: mini, base, large (about an hour)
    ./dev bench --peers --quick         mini, three cells
    ./dev bench --peers --models base --cells b1s128,b8s128

Every cell is measured in rounds: a window of each subject after the other, forwards and backwards
in turn, so that drift of the machine meets all of them. The inputs are the same and the outputs are
compared. How to read the table: docs/measuring.md. Exit 1 if outputs differ or a row's bits
depend on its batch.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy
import onnxruntime

import report
from machine import entry, processor

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
WORK = ROOT / "build" / "bench" / "peers"
MODELS = {"mini": "bert-mini", "base": "bert-base", "large": "bert-large"}
CELLS = ["b1s32", "b1s128", "b1s384", "b8s128", "b32s128"]
QUICK_MODELS, QUICK_CELLS = ["mini"], ["b1s32", "b1s128", "b8s128"]
WARM_UP_RUNS, LEAST_RUNS = 3, 3  # per window
PAUSE_S = 0.05  # between windows: a pool that still spins would be measured with the next subject


def command(program, *arguments):
    """Runs one of our programs; returns its JSON, or None where it prints none."""
    done = subprocess.run([str(BUILD / program), *map(str, arguments)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if done.stdout.startswith("{") else None


class OnnxRuntime:
    """ONNX Runtime with all its optimisations, in this process."""

    def __init__(self, model, threads):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(model), options,
                                                    providers=["CPUExecutionProvider"])

    def run(self, inputs):
        return self.session.run(None, inputs)

    def window(self, inputs, seconds):
        """Milliseconds of each run."""
        for _ in range(WARM_UP_RUNS):
            self.run(inputs)
        times, start = [], time.perf_counter()
        while len(times) < LEAST_RUNS or time.perf_counter() - start < seconds:
            before = time.perf_counter()
            self.run(inputs)
            times.append((time.perf_counter() - before) * 1e3)
        return times


class Model:
    """A model of make-model, its engine, and the peer's session."""

    def __init__(self, name, threads):
        self.name, self.threads = name, threads
        onnx, self.engine = WORK / f"{name}.onnx", WORK / f"{name}.vn"
        print(f"making {MODELS[name]}", file=sys.stderr)
        self.sizes = command("vernier", "make-model", MODELS[name], "-o", onnx, "--json")
        command("vernier", "build", onnx, "-o", self.engine, "--shapes",
                "batch=1..32,seq=1..512", "--json")
        self.peer = OnnxRuntime(onnx, threads)

    def inputs(self, batch, length):
        random = numpy.random.default_rng(batch * 1000 + length)
        shape = (batch, length)
        return {
            "input_ids": random.integers(5, self.sizes["vocab"], shape, dtype=numpy.int64),
            "attention_mask": numpy.ones(shape, numpy.int64),
            "token_type_ids": numpy.zeros(shape, numpy.int64),
        }

    def answers(self, inputs):
        """The engine's logits."""
        source, target = WORK / "run_in.npz", WORK / "run_out.npz"
        numpy.savez(source, **inputs)
        command("vernier", "run", self.engine, "--inputs", source, "--outputs", target,
                "--threads", self.threads)
        with numpy.load(target) as arrays:
            return arrays["logits"]

    def window(self, subject, inputs, file, seconds):
        limits = ["--threads", self.threads, "--seconds", seconds, "--runs", LEAST_RUNS]
        if subject == "onnxruntime":
            return self.peer.window(inputs, seconds)
        if subject == "vernier":
            return command("vernier", "bench", self.engine, "--inputs", file, "--json",
                           *limits)["times_ms"]
        batch, length = inputs["input_ids"].shape
        sizes = [f"--{key}={self.sizes[key]}" for key in ("layers", "hidden", "heads", "ffn")]
        return command("bench/bench_floor", *sizes, "--batch", batch, "--length", length,
                       *limits)["times_ms"]


def measure(model, batch, length, options):
    """One cell of the table."""
    inputs = model.inputs(batch, length)
    file = WORK / "cell.npz"
    numpy.savez(file, **inputs)
    got, want = model.answers(inputs), model.peer.run(inputs)[0]
    windows = {subject: [] for subject in report.SUBJECTS}
    for turn in range(options.rounds):
        for subject in report.SUBJECTS if turn % 2 == 0 else reversed(report.SUBJECTS):
            windows[subject].append(model.window(subject, inputs, file, options.seconds))
            time.sleep(PAUSE_S)
    cell = {"model": model.name, "batch": batch, "length": length,
            "difference": report.difference(got.ravel().tolist(), want.ravel().tolist())}
    cell.update((subject, report.summary(times)) for subject, times in windows.items())
    return cell


def rows_equal(model):
    """Has every row of b8 s128 the bits that it has alone?"""
    inputs = model.inputs(8, 128)
    together = model.answers(inputs)
    for row in range(8):
        alone = model.answers({name: array[row:row + 1] for name, array in inputs.items()})
        if alone.tobytes() != together[row:row + 1].tobytes():
            return False
    return True


def batch_cost(model, cells):
    """b8 s128 over b1 s128 of this model's cells, where both were measured: a list of one or none."""
    times = {(cell["batch"], cell["length"]): report.median(cell, "vernier") for cell in cells}
    if not {(1, 128), (8, 128)} <= set(times):
        return []
    return [{"model": model.name, "cost": times[8, 128] / times[1, 128],
             "rows_equal": rows_equal(model)}]


def measure_model(name, options):
    """All cells of a model, printed as they come, and its batch_cost()."""
    model = Model(name, options.threads)
    cells = []
    for text in options.cells:
        batch, length = map(int, text[1:].split("s"))
        cells.append(measure(model, batch, length, options))
        print(report.row(cells[-1]), flush=True)
    return cells, batch_cost(model, cells)


def surroundings(options):
    """What a reader needs to judge the figures."""
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True,
                         text=True, check=False)
    floor = command("bench/bench_floor", "--layers", 1, "--hidden", 64, "--heads", 1, "--ffn", 64,
                    "--seconds", 0, "--runs", 1)
    return {
        "command": " ".join(["./dev bench --peers", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {**processor(),
                    "memory": entry("/proc/meminfo", "MemTotal"),
                    "system": entry("/etc/os-release", "PRETTY_NAME", "="),
                    "load": round(os.getloadavg()[0], 1)},
        "versions": {"vernier": git.stdout.strip(), "onnxruntime": onnxruntime.__version__,
                     "onednn": floor["onednn"], "numpy": numpy.__version__,
                     "python": platform.python_version()},
        "settings": {"threads": options.threads, "rounds": options.rounds,
                     "seconds_per_window": options.seconds, "warm_up_runs": WARM_UP_RUNS,
                     "least_runs_per_window": LEAST_RUNS,
                     "onnxruntime": "CPUExecutionProvider, ORT_ENABLE_ALL, sequential, intra-op "
                                    f"threads {options.threads}, inter-op threads 1",
                     "tolerance": report.TOLERANCE},
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="mini, three cells, short windows")
    parser.add_argument("--models", help=f"of {','.join(MODELS)}")
    parser.add_argument("--cells", help=f"of {','.join(CELLS)}")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, help="windows of each subject; default 6 (quick: 2)")
    parser.add_argument("--seconds", type=float, help="of a window; default 2 (quick: 0.5)")
    parser.add_argument("--output", type=pathlib.Path,
                        help="JSON; default bench/results/peers_cpu.json (quick: below build/)")
    options = parser.parse_args()
    quick = options.quick
    options.models = options.models.split(",") if options.models else (
        QUICK_MODELS if quick else list(MODELS))
    options.cells = options.cells.split(",") if options.cells else (
        QUICK_CELLS if quick else CELLS)
    options.rounds = options.rounds or (2 if quick else 6)
    options.seconds = options.seconds if options.seconds is not None else (0.5 if quick else 2)
    options.output = options.output or (
        WORK / "quick.json" if quick else ROOT / "bench" / "results" / "peers_cpu.json")
    for what, chosen, known in (("--models", options.models, MODELS),
                                ("--cells", options.cells, CELLS)):
        wrong = [name for name in chosen if name not in known]
        if wrong:
            parser.error(f"{what}: there is no '{wrong[0]}'; there are {', '.join(known)}")
    return options


def main():
    options = parse()
    WORK.mkdir(parents=True, exist_ok=True)
    result = surroundings(options)
    print(json.dumps(result, indent=2))
    if result["machine"]["load"] > 0.5:
        print(f"warning: the load is {result['machine']['load']:.1f}: something else is running, "
              "and these figures show it", file=sys.stderr)
    print(report.HEAD)
    cells, batches = [], []
    for name in options.models:
        own_cells, own_batches = measure_model(name, options)
        cells += own_cells
        batches += own_batches
    for line in report.model_lines(cells) + [report.batch_line(b) for b in batches]:
        print(line)
    code = report.verdict(cells, batches)
    print("outputs agree" if code == 0 else "FAILED: outputs differ, see above")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({**result, "cells": cells, "batch": batches}, indent=1)
                              + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
