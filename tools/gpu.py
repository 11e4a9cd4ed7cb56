#!/usr/bin/env python3
"""Runs what needs an NVIDIA device, and prints one table of results and limits at the end.

    tools/gpu.py build/cuda                               the tests                 (./dev gpu)
    tools/gpu.py build/cuda --all                         every stage               (./dev gpu --all)
    tools/gpu.py build/cuda --stages invariance,peers --limit 300

FOLDER holds the programs, in bench/ and tests/ below it or side by side. Run it from the root of the
source tree. A stage whose tools are missing prints SKIP and why. Exit 1 if a test failed, a result is
wrong, a memory checker reports something, a row's bits depend on its batch or a program did not end;
times decide nothing: the table shows them beside their goals. Contract: docs/testing.md.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import report_gpu  # noqa: E402

# The field cases, every example model, sessions: what of these programs runs on any device.
# Without those that start the program, which need not lie where it was built.
SCENARIOS = ("*OnDevice*:*Unpadded*:*Reranker*:*Attention*:*Tracker*:*LayerNorm*:*Mask*:*Planted*:Sessions*:"
             "-*HalfModel*:MaskedRun.*:MaskedReport.*")
SESSIONS = ("Session.*:SizedSteps.*:Fork.*:Observer.*:Callers*:OutOfMemory.*:Recordings.*:"
            "SideBySide.*")
STAGES = {
    "tests": "operator tables, scenarios, sessions, planted defects",
    "memcheck": "compute-sanitizer on the operator tables",
    "initcheck": "compute-sanitizer on the operator tables",
    "racecheck": "compute-sanitizer on the operator tables",
    "kernels": "times of single kernels, sampled rows of their results against FP64",
    "invariance": "what equal bits of rows cost in products",
    "peers": "beside PyTorch, run after run",
    "rests": "beside PyTorch, 100 ms of rest before each run",
    "sweeps": "seeded sweeps of verify on the device and the CPU, for false alarms; not in --all",
}
SWEEPS = 5  # seeds of each example model, mode and device
SWEEP_MODES = ("fp32", "fp16", "bf16", "int8", "fp8")
OPTIONS_OF_TOOLS = {
    # A test requests 2^50 bytes: the driver's refusal is not an error of a kernel.
    "memcheck": ("--report-api-errors", "no"),
    # initcheck does not see what tensor maps store: such a result looks unwritten to a copy. What
    # kernels read is checked, and whether results are written the tables tell, which poison them.
    "initcheck": ("--check-api-memory-access", "no"),
}
SHARDS = 16  # of the operator tables
SCENARIO_SHARDS = 12
PLANT_PARTS = 6  # of the planted defects
JOB_LIMIT_S = 900  # of one process
REST_MS = 100
PEERS_S = 100  # of one comparison: its last cell is begun before
# Parts of the names of the cases that the stage 'kernels' times (tests/backend/cuda/timed_*.cpp).
TIMED = ("1024x4096 gelu", "x4096x1024 f16", "LinearAddLayerNorm 16384x384", "Attention 32x16x512x64",
         "Attention 128x12x128x64", "LayerNorm 16384x1024", "EmbedNorm 16384x768 f16", "Softmax 1024",
         "Gelu erf f16", "chain of 3 f16", "Transpose 0213")
# Percent that equal bits may cost (products of all layers, ours against the free choice), by rows.
COSTS = {1: 8, 1024: 1, 2048: 1, 4096: 1, 16384: 1}


@dataclasses.dataclass
class Line:
    """A line of the table. `good`: None where nothing was shown."""
    what: str
    figure: str
    must: str = ""
    good: bool | None = None
    decides: bool = True  # not a time

    def __str__(self):
        shown = {None: "-", True: "yes", False: "NO"}[self.good]
        return f"{self.what:<30} {self.figure:<58} {self.must:<22} {shown}"


@dataclasses.dataclass
class Job:
    """One process, and its output in a file of its own."""
    name: str
    command: list
    log: pathlib.Path
    code: int | None = None  # None: it took too long
    text: str = ""

    def run(self, environment, limit_s):
        try:
            with self.log.open("wb") as out:
                self.code = subprocess.run(self.command, stdout=out, stderr=subprocess.STDOUT,
                                           stdin=subprocess.DEVNULL, env=environment, cwd=ROOT,
                                           timeout=limit_s, check=False).returncode
        except subprocess.TimeoutExpired:
            pass
        self.text = self.log.read_text(encoding="utf-8", errors="replace")
        return self

    def why_failed(self):
        if self.code is None:
            return "was stopped: it took too long"
        return f"exit {self.code}" if self.code else ""

    def passed(self):
        return len(re.findall(r"^\[       OK|ok$", self.text, re.MULTILINE))

    def skipped(self):
        return len(re.findall(r"^\[  SKIPPED \] .*\(\d+ ms\)$", self.text, re.MULTILINE))

    def tell_skips(self):
        for line in self.text.splitlines():
            if line.startswith("SKIP") or ": SKIP" in line:
                print(line)

    def tell_failure(self, why):
        print("\n".join(self.text.splitlines()[-60:]))
        print(f"== {self.name}: FAILED, {why} (see above)", flush=True)


class Run:
    """The stages on this machine's device."""

    def __init__(self, folder, logs, stop_at):
        self.folder, self.logs, self.stop_at = folder, logs, stop_at
        self.lines = []
        self.environment = dict(os.environ, VERNIER_TEST_DEVICE="cuda")

    def left(self):
        return self.stop_at - time.monotonic()

    def program(self, name):
        """Its path, or None."""
        places = [self.folder / name, self.folder / "tests" / name, self.folder / "bench" / name]
        return next((str(place) for place in places if place.is_file()), None)

    def lacks(self, stage, *programs):
        """Whether one of these programs is missing; prints which."""
        for name in programs:
            if not self.program(name):
                print(f"SKIP {stage}: {self.folder} has no {name}; './dev gpu --all' builds it")
                self.lines.append(Line(stage, f"not run: no {name}"))
                return True
        return False

    def jobs(self, wanted):
        """`wanted`: (name, command, environment). All of them, as many at a time as there are cores."""
        def run(name, command, more):
            limit_s = max(1, min(JOB_LIMIT_S, self.left()))
            return Job(name, command, self.logs / name).run({**self.environment, **more}, limit_s)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(run, *zip(*wanted)))

    def shards(self, name, count, *options, before=(), prefix=""):
        command = [*before, self.program(name), *options]
        return [(f"{prefix}{name} {i + 1} of {count}", command,
                 {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(i)})
                for i in range(count)]

    def tests(self):
        if self.lacks("tests", "test_backend_cuda", "test_scenarios", "test_runtime",
                      "planted_defects"):
            return
        done = self.jobs(self.shards("test_backend_cuda", SHARDS)
                         + self.shards("test_scenarios", SCENARIO_SHARDS, f"--gtest_filter={SCENARIOS}")
                         + self.shards("test_runtime", 1, f"--gtest_filter={SESSIONS}")
                         + [(f"planted_defects {i + 1} of {PLANT_PARTS}",
                             [self.program("planted_defects"), "--part", f"{i + 1}/{PLANT_PARTS}"],
                             {}) for i in range(PLANT_PARTS)])
        for program, what in (("test_backend_cuda", "operator tables"),
                              ("test_scenarios", "scenarios, example models"),
                              ("test_runtime", "sessions"), ("planted_defects", "planted defects")):
            self.counted(what, [job for job in done if job.name.startswith(program)])

    def counted(self, what, jobs):
        """A line of GoogleTest's processes, of which each must have passed some test."""
        bad = 0
        for job in jobs:
            job.tell_skips()
            why = job.why_failed() or ("" if job.passed() else "ran no test")
            if why:
                job.tell_failure(why)
                bad += 1
            else:
                print(f"== {job.name}: {job.passed()} passed", flush=True)
        skipped = sum(job.skipped() for job in jobs)
        figure = f"{sum(job.passed() for job in jobs)} passed" + (
            f", {skipped} skipped" if skipped else "") + (
            f"; {bad} of {len(jobs)} processes FAILED" if bad else "")
        self.lines.append(Line(what, figure, "all pass", not bad))

    def sanitizer(self, tool):
        """One of compute-sanitizer's tools on the operator tables."""
        if self.lacks(tool, "test_backend_cuda"):
            return
        checker = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.access(checker, os.X_OK):
            print(f"SKIP {tool}: compute-sanitizer, a part of the CUDA toolkit, is not on PATH")
            self.lines.append(Line(tool, "not run: no compute-sanitizer"))
            return
        before = [checker, "--tool", tool, *OPTIONS_OF_TOOLS.get(tool, ())]
        done = self.jobs(self.shards("test_backend_cuda", SHARDS, "--bare", before=before,
                                     prefix=f"{tool} "))
        passed = sum(job.passed() for job in done)
        found = [error for job in done for error in sanitizer_errors(tool, job.text)]
        for job in done:
            if job.code != 0 or not job.passed() or not sanitizer_ended(job.text):
                why = job.why_failed() or "ran no test, or the tool did not end"
                job.tell_failure(why)
                found.append(why)
        for error in sorted(set(found)):
            print(f"== {tool}: {error}")
        self.lines.append(Line(tool, f"{len(found)} reports, {passed} passed", "0 reports",
                               not found))

    def kernels(self):
        if self.lacks("kernels", "test_backend_cuda"):
            return
        file = self.logs / "kernels.json"
        [job] = self.jobs([("kernels.txt", [self.program("test_backend_cuda"), "--time", *TIMED,
                                            "--json", str(file)], {})])
        print(job.text, end="", flush=True)
        if job.code != 0:
            job.tell_failure(job.why_failed())
        checks = [row["check"] for row in json.loads(file.read_text(encoding="utf-8"))
                  ] if file.is_file() else []
        figure = ", ".join(f"{checks.count(what)} {what}"
                           for what in ("right", "not compared", "WRONG") if what in checks)
        self.lines.append(Line("timed kernels", figure or job.why_failed() or "none",
                               "none wrong", job.code == 0 and "right" in checks))

    def invariance(self):
        if self.lacks("invariance", "bench_invariance"):
            return
        file = self.logs / "invariance.json"
        [job] = self.jobs([("bench_invariance", [self.program("bench_invariance"), str(file)], {})])
        print(job.text, end="", flush=True)
        if job.code != 0:
            job.tell_failure(job.why_failed())
            self.lines.append(Line("bits of rows in products", job.why_failed(), "equal", False))
            return
        self.lines.append(Line("bits of rows in products", "equal in all tile shapes", "equal",
                               True))
        for model, costs in invariance_costs(json.loads(file.read_text(encoding="utf-8"))).items():
            for rows, cost in costs.items():
                if rows in COSTS:
                    self.lines.append(Line(f"equal bits, {model} {rows} rows", f"{cost:+.1f} %",
                                           f"at most {COSTS[rows]} %", cost <= COSTS[rows],
                                           decides=False))

    def peers(self, stage):
        if self.lacks(stage, "vernier"):
            return
        check = subprocess.run([sys.executable, "-c", "import torch, onnx, numpy"], check=False,
                               capture_output=True)
        if check.returncode != 0:
            print(f"SKIP {stage}: {sys.executable} has no torch, onnx or numpy")
            self.lines.append(Line(stage, "not run: no torch, onnx or numpy"))
            return
        file = self.logs / f"{stage}.json"
        command = [sys.executable, "bench/peers/gpu.py", "--vernier", self.program("vernier"),
                   "--limit", str(int(min(PEERS_S, self.left()))), "--output", str(file)]
        if stage == "rests":
            command += ["--pause", str(REST_MS), "--build-once"]
        [job] = self.jobs([(f"{stage}.txt", command, {})])
        print(job.text, end="", flush=True)
        if not file.is_file():
            self.lines.append(Line(stage, job.why_failed(), "answers agree", False))
            return
        self.lines += peer_lines(stage, json.loads(file.read_text(encoding="utf-8")))

    def sweeps(self):
        if self.lacks("sweeps", "verify_seeds"):
            return
        models = sorted((ROOT / "tests" / "models").glob("*/model.onnx"))
        done = self.jobs([(f"sweeps {model.parent.name} {mode} {place}",
                           [self.program("verify_seeds"), str(SWEEPS), str(model), "--device", place,
                            "--modes", mode], {})
                          for model in models for mode in SWEEP_MODES for place in ("cuda", "cpu")])
        failed = [job for job in done if job.code != 0]
        for job in failed:
            job.tell_failure(job.why_failed())
        for job in done:
            print("\n".join(job.text.splitlines()[1:]), flush=True)
        self.lines.append(Line("seeded sweeps", f"{SWEEPS * len(done)} sweeps, {len(failed)} of "
                               f"{len(done)} engines with a false alarm", "no false alarm",
                               bool(done) and not failed))

    def run(self, stages):
        for stage in stages:
            if self.left() <= 0:
                print(f"SKIP {stage}: no time was left")
                self.lines.append(Line(stage, "not run: no time was left"))
                continue
            print(f"== stage {stage}: {STAGES[stage]}", flush=True)
            begin = time.monotonic()
            if stage.endswith("check"):
                self.sanitizer(stage)
            elif stage in ("peers", "rests"):
                self.peers(stage)
            else:
                getattr(self, stage)()
            print(f"== stage {stage} took {time.monotonic() - begin:.0f} s", flush=True)


def sanitizer_errors(tool, text):
    """The reports of compute-sanitizer, a line each, without frames, pid and addresses."""
    if tool == "racecheck":
        # The kernel is named in the line of the first access; the number of hazards does not matter.
        return re.findall(r"^========= (?:Error|Warning): (Race reported between .*)$", text,
                          re.MULTILINE)
    summary = re.findall(r"^========= ERROR SUMMARY: (\d+) error", text, re.MULTILINE)
    reports = re.findall(r"^========= ((?:Invalid|Uninitialized|Misaligned|Program hit|Leaked|Barrier)"
                         r".*)$", text, re.MULTILINE)
    missing = sum(map(int, summary)) - len(reports)
    return reports + [f"{missing} more"] * (missing > 0)


def sanitizer_ended(text):
    return re.search(r"^========= (?:ERROR|RACECHECK) SUMMARY: ", text, re.MULTILINE) is not None


def invariance_costs(products):
    """By model and rows, percent: all products ours against the free choice."""
    sums = {}
    for product in products:
        ours, free = sums.setdefault(product["model"], {}).get(product["m"], (0, 0))
        sums[product["model"]][product["m"]] = (ours + product["ours_us"],
                                                free + product["free_us"])
    return {model: {rows: 100 * (ours / free - 1) for rows, (ours, free) in of.items()}
            for model, of in sums.items()}


def peer_lines(stage, result):
    """The table's lines of a file of bench/peers/gpu.py."""
    bad = report_gpu.verdict(result) != 0
    lines = [Line(f"{stage}: answers, bits, bytes",
                  "FAILED, see above" if bad else "agree with FP64, equal, the same",
                  "all", not bad)]
    for cell in result["cells"]:
        goal = report_gpu.GOALS_MS.get((cell["model"], cell["cell"]))
        if cell["type"] != "fp16" or goal is None:
            continue
        what = f"{stage}: {cell['model']} {cell['cell']} fp16"
        if "vernier" not in cell:
            lines.append(Line(what, "not measured", f"{goal} ms"))
            continue
        ours = cell["vernier"]["median_ms"]
        beside = [f"{name} {value:.3f}" for name, value in (
            ("PyTorch", cell.get("pytorch", {}).get("median_ms")), ("floor", cell.get("floor_ms")))
            if value is not None]
        lines.append(Line(what, f"{ours:.3f} ms ({', '.join(beside)})", f"{goal} ms", ours <= goal,
                          decides=False))
    for engine in result["engines"]:
        seconds = engine.get("build", {}).get("first_result_s")
        if engine["model"] == "large" and engine["type"] == "fp16" and seconds is not None:
            lines.append(Line(f"{stage}: first result of large", f"{seconds:.1f} s",
                              f"{report_gpu.GOAL_BUILD_S} s", seconds <= report_gpu.GOAL_BUILD_S,
                              decides=False))
    return lines


def device():
    """The first line of nvidia-smi -L, "" without a device."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0].partition(" (UUID")[0] if done.returncode == 0 else ""


def tree(folder):
    """The tree that the programs were built from; a pack has it in a file."""
    file = folder / "tree"
    if file.is_file():
        return file.read_text(encoding="utf-8").strip()
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or "unknown"


def stages(text):
    """argparse's type of --stages."""
    chosen = text.split(",")
    for name in chosen:
        if name not in STAGES:
            raise argparse.ArgumentTypeError(f"there is no '{name}'; there are {', '.join(STAGES)}")
    return [name for name in STAGES if name in chosen]


def parse():
    listed = "\n".join(f"  {name:<11} {what}" for name, what in STAGES.items())
    made = argparse.ArgumentParser(description=__doc__ + "\nstages, in their order:\n" + listed,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="of the programs")
    made.add_argument("--all", action="store_true", help="every stage but the sweeps")
    made.add_argument("--stages", type=stages, metavar="LIST", help="these, e.g. tests,peers")
    made.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS",
                      help="then stop what runs and print the table")
    made.add_argument("--output", type=pathlib.Path, metavar="FOLDER",
                      help="what the programs print, the JSON and the table; default: "
                      "build/gpu_logs, emptied first")
    options = made.parse_args()
    if options.all and options.stages:
        made.error("--all and --stages exclude each other")
    options.folder = options.folder.resolve()
    if options.output is None:
        options.output = ROOT / "build" / "gpu_logs"
        shutil.rmtree(options.output, ignore_errors=True)
    options.output = options.output.resolve()
    if options.all:
        options.stages = [stage for stage in STAGES if stage != "sweeps"]
    options.stages = options.stages or ["tests"]
    return options


def main():
    options = parse()
    name = device()
    if not name:
        print("SKIP gpu tests: the kernels compile, but there is no NVIDIA device on this machine. "
              "Run './dev gpu' where there is one")
        return 0
    print(f"== on {name}", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    run = Run(options.folder, options.output, time.monotonic() + options.limit)
    run.run(options.stages)
    shown = "\n".join([f"{name}, tree {tree(options.folder)}, {time.strftime('%Y-%m-%d')}",
                       f"{'what':<30} {'shown':<58} {'must':<22} reached", *map(str, run.lines)])
    (options.output / "table.txt").write_text(shown + "\n", encoding="utf-8")
    print(shown)
    print(f"== what they printed: {os.path.relpath(options.output, ROOT)}")
    failed = [line.what for line in run.lines if line.decides and line.good is False]
    print(f"FAILED: {', '.join(failed)}" if failed else "nothing failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
