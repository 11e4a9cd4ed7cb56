#!/usr/bin/env python3
"""Times Vernier in BF16 beside its own FP32 and beside both floors, bert-base, in one run.

    ./dev build && .venv/bin/python bench/peers/bf16.py [--rounds 4] [--seconds 2]

Windows of the four subjects follow each other, forwards and backwards in turn. Writes
bench/results/bf16_cpu.json. How to read it: docs/measuring.md.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
WORK = ROOT / "build" / "bench" / "bf16"
SIZES = ["--layers", "12", "--hidden", "768", "--heads", "12", "--ffn", "3072"]
CELLS = [(8, 128), (1, 128)]
SUBJECTS = ["vernier fp32", "vernier bf16", "floor f32", "floor bf16"]


def output(program, *arguments):
    return subprocess.run([str(BUILD / program), *map(str, arguments)], check=True,
                          capture_output=True, text=True).stdout


def window(subject, batch, length, options):
    """The median of one window, ms."""
    kind, name = subject.split()
    shape = ["--batch", batch, "--length", length, "--threads", options.threads, "--seconds",
             options.seconds, "--runs", 3]
    if kind == "vernier":
        text = output("vernier", "bench", WORK / f"{name}.vn", *shape, "--json")
    else:
        text = output("bench/bench_floor", *SIZES, *shape, "--type", name)
    return statistics.median(json.loads(text)["times_ms"])


def measure(batch, length, options):
    windows = {subject: [] for subject in SUBJECTS}
    for turn in range(options.rounds):
        for subject in SUBJECTS if turn % 2 == 0 else reversed(SUBJECTS):
            windows[subject].append(window(subject, batch, length, options))
    medians = {subject: statistics.median(times) for subject, times in windows.items()}
    print(f"b{batch} s{length}:", ", ".join(f"{s} {t:.1f} ms" for s, t in medians.items()))
    print(f"  bf16 is {medians['vernier fp32'] / medians['vernier bf16']:.2f}x as fast as fp32, "
          f"{medians['vernier bf16'] / medians['floor bf16']:.2f}x its floor")
    return {"medians_ms": medians, "window_medians_ms": windows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    output("vernier", "make-model", "bert-base", "-o", WORK / "base.onnx")
    for mode in ("fp32", "bf16"):
        output("vernier", "build", WORK / "base.onnx", "-o", WORK / f"{mode}.vn", f"--{mode}",
               "--shapes", "batch=1..8,seq=1..128")
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "load": round(os.getloadavg()[0], 1), "threads": options.threads,
              "model": "bert-base"}
    result["cells"] = {f"b{b} s{s}": measure(b, s, options) for b, s in CELLS}
    target = ROOT / "bench" / "results" / "bf16_cpu.json"
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
