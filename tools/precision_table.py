"""Builds every example model in fp16 and bf16, verifies it, and writes what came out into
docs/verification_fitting.md between its markers, with what the trained models' tasks lose in 16 bits.
Run after a build of vernier and test_runtime: python3 tools/precision_table.py [--dry]
Models: tests/models, and ../shared/models/trained, which is not in the repository (SKIP if absent).
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERNIER = ROOT / "build/release/vernier"
PAGE = ROOT / "docs/verification_fitting.md"
TASKS = ROOT / "build/release/tests/test_runtime"
BEGIN = "<!-- begin: tools/precision_table.py {} -->"
END = "<!-- end: tools/precision_table.py {} -->"
TASK_HEAD = """| model | mode | result | first ten items changed |
|---|---|---|---|"""
HEAD = """| model | mode | verdict | rms / rms(R) | noise / rms(R) | error / noise | first places changed | worst row | 16-bit steps | widened | s |
|---|---|---|---|---|---|---|---|---|---|---|"""


def models():
    """(name, path) of every model there is."""
    found = [(p.parent.name, p) for p in (ROOT / "tests/models").glob("*/model.onnx")]
    trained = ROOT.parent / "shared/models/trained"
    if not trained.is_dir():
        print(f"SKIP: the trained models: {trained} is not here")
    found += [(p.stem, p) for p in trained.glob("*/*.onnx")]
    return sorted(found)


def vernier(*arguments):
    """The JSON that a command prints; exit 1 is a verdict."""
    done = subprocess.run([VERNIER, *map(str, arguments), "--json"], capture_output=True, text=True)
    if done.returncode > 1:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def steps_of(engine):
    """How many steps there are, how many read or write 16 bits, how many of those by widening."""
    steps = vernier("inspect", engine, "--plan")["steps"]
    narrow = [s for s in steps
              if any(v and v["type"] in ("f16", "bf16") for v in s["inputs"] + s["outputs"])]
    return len(steps), len(narrow), sum(s["kernel"].endswith("_widened") for s in narrow)


def ratio(a, b):
    return a / b if b else 0.0


def row(name, path, mode, folder):
    """One line of the table, and what is wrong with the engine (None if nothing)."""
    engine = folder / "engine.vn"
    vernier("build", path, "-o", engine, f"--{mode}")
    start = time.monotonic()
    report = vernier("verify", engine, "--model", path)
    seconds = time.monotonic() - start
    count, narrow, widened = steps_of(engine)
    floats = [o for o in report["outputs"] if o["all_cells"]["rms_reference"] > 0]
    worst = max(floats, key=lambda o: ratio(o["all_cells"]["rms"], o["noise_rms"]))
    error, scale = worst["all_cells"]["rms"], worst["all_cells"]["rms_reference"]
    rankings = sum(o["rankings"] for o in floats)
    changes = f"{sum(o['top1_changes'] for o in floats)} of {rankings}" if rankings else "–"
    cells = [name, mode, report["verdict"], f"{ratio(error, scale):.1e}",
             f"{ratio(worst['noise_rms'], scale):.1e}", f"{ratio(error, worst['noise_rms']):.2f}",
             changes, f"{worst['worst_row']} of {worst['worst_cell']}", f"{narrow} of {count}",
             str(widened), f"{seconds:.1f}"]
    wrong = None if report["verdict"] == "pass" else f"{name} {mode}: {report['explanation']}"
    return "| " + " | ".join(cells) + " |", wrong


def tasks():
    """The lines that tests/runtime/trained_test.cpp prints; empty where the models are absent."""
    filters = "--gtest_filter=*NanoGptSort*:IclrecBeauty*"
    done = subprocess.run([TASKS, filters], capture_output=True, text=True, cwd=ROOT)
    return [line for line in done.stdout.splitlines() if line.startswith("| ")]


def write(name, lines):
    begin, end = BEGIN.format(name), END.format(name)
    before, rest = PAGE.read_text().split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after)


def main(arguments):
    lines, wrong = [HEAD], []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in models():
            for mode in ("fp16", "bf16"):
                line, problem = row(name, path, mode, pathlib.Path(folder))
                print(line, flush=True)
                lines.append(line)
                wrong += [problem] if problem else []
    done = tasks()
    print("\n".join(done) if done else "SKIP: the tasks of the trained models")
    if "--dry" not in arguments:
        write("models", lines)
        if done:
            write("tasks", [TASK_HEAD, *done])
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
