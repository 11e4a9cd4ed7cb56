#!/usr/bin/env python3
"""Times Vernier beside OpenVINO in FP32, BF16 and INT8 on the CPU, in one run.

    ./dev bench --openvino                       mini and base (about 15 minutes)
    ./dev bench --openvino --models mini --rounds 2 --seconds 1
    ./dev bench --openvino --models large --modes int8,static

Models of make-model. OpenVINO's INT8 is NNCF's post-training quantization of the same model
(transformer preset, seeded ids), with FP32 and with BF16 for the rest; Vernier's is build --int8,
every product: "int8" finds the scales of each row at run time, "static" takes those that vernier
calibrate finds on the rows that NNCF is given.
Windows of the subjects follow each other, forwards and backwards in turn. The table has medians of
all runs. Writes bench/results/openvino_cpu.json. How to read it: docs/measuring.md.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import nncf
import numpy
import openvino

from machine import processor
from modes import mode_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "vernier"
WORK = ROOT / "build" / "bench" / "openvino"
MODELS = {"mini": "minilm-l6", "base": "bert-base", "large": "bert-large"}
CELLS = [(1, 32), (1, 128), (8, 128), (32, 128)]
MODES = ("fp32", "bf16", "int8", "static")
PEER_OF = {"static": "int8"}  # the other modes have peers of their name
CALIBRATION_ROWS = 30
LEAST_RUNS = 5


def vernier(*arguments):
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"vernier {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if done.stdout.startswith("{") else None


def inputs(vocabulary, batch, length):
    random = numpy.random.default_rng(batch * 1000 + length)
    shape = (batch, length)
    return {"input_ids": random.integers(5, vocabulary, shape, dtype=numpy.int64),
            "attention_mask": numpy.ones(shape, numpy.int64),
            "token_type_ids": numpy.zeros(shape, numpy.int64)}


def calibrated(name, model, rows):
    """The scales file of a model."""
    folder = WORK / f"{name}.rows"
    folder.mkdir(exist_ok=True)
    for i, row in enumerate(rows):
        numpy.savez(folder / f"{i:02}.npz", **row)
    scales = WORK / f"{name}.scales.json"
    vernier("calibrate", model, "--data", folder, "-o", scales, "--json")
    return scales


class Subjects:
    """A model's engines and compiled models."""

    def __init__(self, name, modes, threads):
        self.modes, self.threads = modes, threads
        model = WORK / f"{name}.onnx"
        self.sizes = vernier("make-model", MODELS[name], "-o", model, "--json")
        self.engines = {}
        rows = [inputs(self.sizes["vocab"], 1, 64 + i) for i in range(CALIBRATION_ROWS)]
        scales = calibrated(name, model, rows) if "static" in modes else None
        for mode in modes:
            self.engines[mode] = WORK / f"{name}.{mode}.vn"
            options = mode_options("int8" if mode == "static" else mode)
            if mode == "static":
                options += ["--scales", scales, "--static"]
            vernier("build", model, "-o", self.engines[mode], *options, "--json")
        core = openvino.Core()
        plain = core.read_model(model)
        quantized = nncf.quantize(core.read_model(model), nncf.Dataset(rows),
                                  model_type=nncf.ModelType.TRANSFORMER,
                                  subset_size=CALIBRATION_ROWS)
        self.peers = {label: self.compiled(core, source, rest)
                      for label, source, rest in (("fp32", plain, "f32"), ("bf16", plain, "bf16"),
                                                  ("int8 + f32", quantized, "f32"),
                                                  ("int8 + bf16", quantized, "bf16"))
                      if any(label.startswith(PEER_OF.get(mode, mode)) for mode in modes)}

    def compiled(self, core, model, rest):
        settings = {"INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1,
                    "INFERENCE_PRECISION_HINT": rest}
        return core.compile_model(model, "CPU", settings).create_infer_request()

    def names(self):
        return ([("vernier", mode) for mode in self.modes]
                + [("openvino", label) for label in self.peers])

    def window(self, subject, arrays, file, seconds):
        """Milliseconds of each run."""
        who, what = subject
        if who == "vernier":
            return vernier("bench", self.engines[what], "--inputs", file, "--threads", self.threads,
                           "--seconds", seconds, "--runs", LEAST_RUNS, "--json")["times_ms"]
        request, times = self.peers[what], []
        for _ in range(3):
            request.infer(arrays)
        start = time.perf_counter()
        while len(times) < LEAST_RUNS or time.perf_counter() - start < seconds:
            before = time.perf_counter()
            request.infer(arrays)
            times.append((time.perf_counter() - before) * 1e3)
        return times


def measure(subjects, batch, length, options):
    arrays = inputs(subjects.sizes["vocab"], batch, length)
    file = WORK / "cell.npz"
    numpy.savez(file, **arrays)
    windows = {subject: [] for subject in subjects.names()}
    for turn in range(options.rounds):
        for subject in list(windows) if turn % 2 == 0 else reversed(list(windows)):
            windows[subject].append(subjects.window(subject, arrays, file, options.seconds))
    medians = {subject: statistics.median(statistics.median(w) for w in times)
               for subject, times in windows.items()}
    ratios = {mode: best_of(medians, mode) / medians["vernier", mode] for mode in subjects.modes}
    return {"batch": batch, "length": length,
            "medians_ms": {f"{who} {what}": ms for (who, what), ms in medians.items()},
            "openvino_over_vernier": ratios}


def best_of(medians, mode):
    """OpenVINO's least time of those that stand beside a mode."""
    peer = PEER_OF.get(mode, mode)
    return min(ms for (who, label), ms in medians.items()
               if who == "openvino" and label.startswith(peer))


def row(name, cell):
    text = f"{name:<6} {cell['batch']:>3} x {cell['length']:<4}"
    for mode, ratio in cell["openvino_over_vernier"].items():
        own = cell["medians_ms"][f"vernier {mode}"]
        text += f"  {mode} {own:8.3f} {own * ratio:8.3f} {ratio:5.2f}x"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mini,base", help=f"of {','.join(MODELS)}")
    parser.add_argument("--modes", default=",".join(MODES), help=f"of {','.join(MODES)}")
    parser.add_argument("--rounds", type=int, default=4, help="windows of each subject")
    parser.add_argument("--seconds", type=float, default=2, help="of a window")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "bench" / "results" / "openvino_cpu.json")
    options = parser.parse_args()
    for name in options.models.split(","):
        if name not in MODELS:
            parser.error(f"--models: there is no '{name}'; there are {', '.join(MODELS)}")
    modes = options.modes.split(",")
    for mode in modes:
        if mode not in MODES:
            parser.error(f"--modes: there is no '{mode}'; there are {', '.join(MODES)}")
    WORK.mkdir(parents=True, exist_ok=True)
    tree = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                          capture_output=True, check=False).stdout.strip()
    result = {"command": " ".join(["./dev bench --openvino", *sys.argv[1:]]),
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "machine": processor(),
              "versions": {"vernier": tree, "openvino": openvino.__version__,
                           "nncf": nncf.__version__},
              "settings": {"threads": options.threads, "rounds": options.rounds,
                           "seconds_per_window": options.seconds},
              "load": round(os.getloadavg()[0], 1), "models": {}}
    print("ms: Vernier, OpenVINO (of INT8 the better of two), and OpenVINO / Vernier")
    for name in options.models.split(","):
        subjects = Subjects(name, modes, options.threads)
        cells = []
        for batch, length in CELLS:
            cells.append(measure(subjects, batch, length, options))
            print(row(name, cells[-1]), flush=True)
        result["models"][name] = cells
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
