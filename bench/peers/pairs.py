#!/usr/bin/env python3
"""Times two builds of Vernier in interleaved pairs: what did a change cost?

    ./dev bench --against OTHER/build/release/vernier --models minilm,base
    python3 bench/peers/pairs.py --new build/release/vernier --old OTHER/vernier --cells b1s128
    python3 bench/peers/pairs.py --new A --old B --models base --pairs 20 --output pairs.json

Each program builds its own engine from the same model (`make-model`, seeded weights): FP32 on the CPU,
or with the options in `--build`, e.g. `--build "--device cuda --fp16"`. A pair is one window of each, the order turned round from pair to pair; its ratio is new median / old median.
The table has the median of the ratios and its 95 % interval (bootstrap over the pairs): a change is
free to within 1 % where the interval reaches into 0.99 to 1.01. Exit 1 where it lies above 1.01.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {"minilm": "minilm", "mini": "bert-mini", "base": "bert-base", "large": "bert-large"}
RESAMPLES, SEED, ALLOWED = 10000, 1, 0.01
PAUSE_S = 0.05


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def on_gpu(options):
    return "cuda" in options.build


def machine(options):
    if on_gpu(options):
        return run("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").strip()
    return platform.processor() or platform.machine()


def window(program, engine, cell, options):
    """Median milliseconds of one process's runs."""
    batch, length = cell[1:].split("s")
    threads = [] if on_gpu(options) else ["--threads", options.threads]
    out = run(program, "bench", engine, "--batch", batch, "--length", length, *threads,
              "--seconds", options.seconds, "--json")
    time.sleep(PAUSE_S)
    return json.loads(out)["median_ms"]


def interval(ratios):
    """Median of `ratios` and the bounds between which 95 % of resampled medians lie."""
    draw = random.Random(SEED)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios)))
                     for _ in range(RESAMPLES))
    return (statistics.median(ratios), medians[int(0.025 * RESAMPLES)],
            medians[int(0.975 * RESAMPLES)])


def measure(model, cell, engines, options):
    pairs = []
    for turn in range(options.pairs):
        order = ["new", "old"] if turn % 2 == 0 else ["old", "new"]
        pairs.append({side: window(getattr(options, side), engines[side], cell, options)
                      for side in order})
    middle, low, high = interval([pair["new"] / pair["old"] for pair in pairs])
    row = {"model": model, "cell": cell, "pairs_ms": pairs, "ratio": middle, "low": low,
           "high": high, "new_ms": statistics.median(pair["new"] for pair in pairs),
           "old_ms": statistics.median(pair["old"] for pair in pairs)}
    print(f"{model:8} {cell:9} new {row['new_ms']:9.3f} ms  old {row['old_ms']:9.3f} ms  "
          f"new/old {middle:.4f}  95 %: {low:.4f} to {high:.4f}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new", required=True, help="the program with the change")
    parser.add_argument("--old", required=True, help="the program without it")
    parser.add_argument("--models", default="minilm", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--cells", default="b1s16,b1s128,b8s128", help="b<batch>s<length>")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1, help="of a window")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--build", default="", help="build options for both programs")
    parser.add_argument("--build-new", default="", help="extra build options for the new program only")
    parser.add_argument("--output", help="file for the JSON")
    options = parser.parse_args()
    report = {"date": datetime.date.today().isoformat(), "new": options.new, "old": options.old,
              "machine": machine(options), "threads": options.threads, "build": options.build,
              "build_new": options.build_new,
              "load_at_start": os.getloadavg()[0], "cells": []}
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            onnx = pathlib.Path(folder) / f"{model}.onnx"
            run(options.new, "make-model", MODELS[model], "-o", onnx)
            engines = {side: pathlib.Path(folder) / f"{model}-{side}.vn" for side in ("new", "old")}
            asked = {"new": f"{options.build} {options.build_new}", "old": options.build}
            for side, engine in engines.items():
                run(getattr(options, side), "build", onnx, "-o", engine, *asked[side].split())
            for cell in options.cells.split(","):
                report["cells"].append(measure(model, cell, engines, options))
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(row["low"] > 1 + ALLOWED for row in report["cells"]) else 0


if __name__ == "__main__":
    sys.exit(main())
