#!/usr/bin/env python3
"""Times sessions that share the machine, beside ONNX Runtime, FP32 on the CPU, in one run.

    ./dev bench --busy                  1, 2, 4, 8 sessions, in threads and in processes, idle and loaded
    ./dev bench --busy --quick          two numbers of sessions, one shape, short windows
    ./dev bench --busy --only "1x16, 4 in threads, idle" --rounds 30      a cell that was not decided
    ./dev bench --busy --output bench/results/busy_cpu.json

Subjects: "vernier" and "onnxruntime" with --threads per session (default: the CPUs that this process
may use), and "one", Vernier with one thread per session. Load: as many processes that do nothing but
count as there are CPUs, started and ended by this script. In every cell the subjects' processes
live side by side and take turns of one window each, forwards and backwards, so that drift of the
machine meets all of them; who does not have the turn sleeps. How to read the table:
docs/measuring.md "Sessions that share the machine". Exit 1 if a goal of report_busy.py is missed
(with --quick: never).
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import threading
import time

import report_busy as report

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
WORK = ROOT / "build" / "bench" / "busy"
CPUS = len(os.sched_getaffinity(0))
SHAPES, QUICK_SHAPES = ["1x16", "1x128", "8x128"], ["1x16"]
SESSIONS, QUICK_SESSIONS = [1, 2, 4, 8], [1, 4]
BEGIN_S = 0.05  # from the word to the processes of a subject to the first run
WARM_UP_RUNS = 5
VOCABULARY = 1000


# ---- one process of ONNX Runtime: busy.py --peer '{…}'

def peer(job):
    """What bench_busy --windows does: job["sessions"] sessions in as many threads."""
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(job["model"], options,
                                             providers=["CPUExecutionProvider"])
                for _ in range(job["sessions"])]
    shape = (job["batch"], job["length"])
    inputs = {"input_ids": numpy.random.default_rng(1).integers(5, VOCABULARY, shape),
              "attention_mask": numpy.ones(shape, numpy.int64),
              "token_type_ids": numpy.zeros(shape, numpy.int64)}
    for session in sessions:
        for _ in range(WARM_UP_RUNS):
            session.run(None, inputs)

    def work(session, begin, own):
        time.sleep(max(0.0, begin - time.time()))
        first = last = time.perf_counter()
        while last - first < job["seconds"]:
            session.run(None, inputs)
            now = time.perf_counter()
            own.append((now - last) * 1e3)
            last = now

    print("ready", flush=True)
    for line in sys.stdin:
        times = [[] for _ in sessions]
        threads = [threading.Thread(target=work, args=(session, float(line), own))
                   for session, own in zip(sessions, times)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps({"times_ms": times}), flush=True)


# ---- windows

class Load:
    """Processes that keep the CPUs busy while this lives."""

    def __init__(self, count):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                          for _ in range(count)]

    def __enter__(self):
        time.sleep(0.5 if self.processes else 0)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def command_of(subject, cell, sessions, options):
    """The command line of one process with so many sessions."""
    batch, length = map(int, cell["shape"].split("x"))
    if subject == "onnxruntime":
        job = {"model": str(WORK / "minilm.onnx"), "sessions": sessions,
               "threads": options.threads, "batch": batch, "length": length,
               "seconds": options.seconds}
        return [sys.executable, __file__, "--peer", json.dumps(job)]
    threads = 1 if subject == "one" else options.threads
    return [BUILD / "bench" / "bench_busy", WORK / "minilm.vn", "--sizes",
            f"batch={batch},seq={length}", "--sessions", sessions, "--threads", threads,
            "--seconds", options.seconds, "--windows"]


class Subject:
    """The processes of one subject of a cell. They sleep but in window()."""

    def __init__(self, subject, cell, options):
        self.name = subject
        count = cell["sessions"] if cell["kind"] == "processes" else 1
        command = list(map(str, command_of(subject, cell, cell["sessions"] // count, options)))
        self.processes = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True,
                                           stdout=subprocess.PIPE) for _ in range(count)]
        for process in self.processes:
            self.line_of(process)

    def line_of(self, process):
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: exit {process.wait()}")
        return line

    def window(self):
        """The milliseconds of every run, one list for each session of all processes."""
        begin = time.time() + BEGIN_S
        for process in self.processes:
            process.stdin.write(f"{begin:.4f}\n")
            process.stdin.flush()
        return [times for process in self.processes
                for times in json.loads(self.line_of(process))["times_ms"]]

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


def measure(cell, options):
    windows = {subject: [] for subject in report.SUBJECTS}
    subjects = [Subject(subject, cell, options) for subject in report.SUBJECTS]
    with Load(CPUS if cell["load"] else 0):
        for turn in range(options.rounds):
            for subject in subjects if turn % 2 == 0 else reversed(subjects):
                windows[subject.name].append(subject.window())
    for subject in subjects:
        subject.end()
    for subject, sessions in windows.items():
        cell[subject] = report.summary(sessions)
    cell["of_one"] = report.ratio(windows["vernier"], windows["one"])
    cell["of_peer"] = report.ratio(windows["vernier"], windows["onnxruntime"])
    return cell


def cells_of(options):
    """Every cell; one session is the same in a thread and in a process."""
    cells = [{"shape": shape, "sessions": sessions, "kind": kind, "load": load}
             for shape in options.shapes for sessions in options.sessions
             for kind in ("threads", "processes") if sessions > 1 or kind == "threads"
             for load in (False, True)]
    return [cell for cell in cells if not options.only or report.name(cell) in options.only]


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def surroundings(options):
    import onnxruntime
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next((line.split(":", 1)[1].strip() for line in lines
                    if line.startswith("model name")), "?")
    tree = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT,
                          capture_output=True, text=True, check=False).stdout.strip()
    return {"command": " ".join(["./dev bench --busy", *sys.argv[1:]]),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": {"cpu": cpu, "cpus": CPUS, "load": round(os.getloadavg()[0], 1)},
            "versions": {"vernier": tree, "onnxruntime": onnxruntime.__version__,
                         "python": platform.python_version()},
            "settings": {"threads": options.threads, "rounds": options.rounds,
                         "seconds_per_window": options.seconds, "model": "minilm (make-model)",
                         "onnxruntime": "CPUExecutionProvider, ORT_ENABLE_ALL, sequential, "
                                        f"intra-op threads {options.threads}, inter-op threads 1"}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="a few short windows; no verdict")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=None,
                        help="batch x length, 1x16,1x128,8x128")
    parser.add_argument("--sessions", type=lambda text: list(map(int, text.split(","))),
                        default=None, help="1,2,4,8")
    parser.add_argument("--threads", type=int, default=CPUS, help="per session")
    parser.add_argument("--only", action="append", metavar="CELL", default=[],
                        help='a cell by its name in the verdict: "1x16, 2 in threads, idle"')
    parser.add_argument("--rounds", type=int, default=None, help="windows of each subject [12]")
    parser.add_argument("--seconds", type=float, default=None, help="of a window")
    parser.add_argument("--output", type=pathlib.Path, help="a JSON file for the figures")
    options = parser.parse_args()
    options.shapes = options.shapes or (QUICK_SHAPES if options.quick else SHAPES)
    options.sessions = options.sessions or (QUICK_SESSIONS if options.quick else SESSIONS)
    options.rounds = options.rounds or (2 if options.quick else 12)
    options.seconds = options.seconds or (0.5 if options.quick else 1.0)
    return options


def main():
    options = arguments()
    if options.peer:
        peer(json.loads(options.peer))
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    run(BUILD / "vernier", "make-model", "minilm", "-o", WORK / "minilm.onnx", "--json")
    run(BUILD / "vernier", "build", WORK / "minilm.onnx", "-o", WORK / "minilm.vn", "--shapes",
        "batch=1..32,seq=1..512", "--json")
    result = surroundings(options)
    print(report.HEAD, flush=True)
    cells = []
    chosen = cells_of(options)
    if not chosen:
        sys.exit(f"--only: no cell is named {' or '.join(options.only)}; names are like "
                 "'1x16, 2 in threads, load = cores'")
    for cell in chosen:
        cells.append(measure(cell, options))
        print(report.row(cell), flush=True)
    missed, undecided = report.judged(cells)
    print("\n".join(report.verdict_lines(cells, missed, undecided)))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({**result, "cells": cells, "missed": missed,
                                             "within_noise": undecided},
                                             indent=1) + "\n", encoding="utf-8")
    return 1 if missed and not options.quick else 0


if __name__ == "__main__":
    sys.exit(main())
