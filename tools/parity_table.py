"""Builds every example model in fp32, tf32, fp16 and bf16, verifies it, and writes what came out into
docs/parity.md, between the markers of its device; the other device's part stays as it is.

Run after a build of vernier: python3 tools/parity_table.py [--device cpu|cuda] [--program VERNIER]
[--jobs N] [--dry]. Exit 1 if a verdict is not pass. Models: tests/models, and
../shared/models/trained, which is not in the repository (SKIP if absent).
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/parity.md"
BEGIN = "<!-- begin: tools/parity_table.py {} -->"
END = "<!-- end: tools/parity_table.py {} -->"
MODES = ("fp32", "tf32", "fp16", "bf16")
NARROW = ("f16", "bf16")
HEAD = """| model | mode | verdict | cells | rms / rms(R) | noise / rms(R) | error / noise | first places changed | worst row | 16-bit steps | widened | s |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def models():
    """(name, path) of every model there is."""
    found = [(p.parent.name, p) for p in (ROOT / "tests/models").glob("*/model.onnx")]
    trained = ROOT.parent / "shared/models/trained"
    if not trained.is_dir():
        print(f"SKIP: the trained models: {trained} is not here")
    found += [(p.stem, p) for p in trained.glob("*/*.onnx")]
    return sorted(found)


def ratio(a, b):
    return a / b if b else 0.0


class Table:
    def __init__(self, program, device):
        self.program, self.device = program, device

    def vernier(self, *arguments):
        """The JSON that a command prints; exit 1 is a verdict."""
        command = [self.program, *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)

    def steps_of(self, engine):
        """How many steps there are, how many read or write 16 bits, how many of those by widening."""
        steps = self.vernier("inspect", engine, "--plan")["steps"]
        narrow = [s for s in steps
                  if any(v and v["type"] in NARROW for v in s["inputs"] + s["outputs"])]
        return len(steps), len(narrow), sum(s["kernel"].endswith("_widened") for s in narrow)

    def verify(self, path, mode):
        """The report of an engine of the model, its steps and the seconds of verify."""
        with tempfile.TemporaryDirectory() as folder:
            engine = pathlib.Path(folder) / "engine.vn"
            self.vernier("build", path, "-o", engine, f"--{mode}", "--device", self.device)
            start = time.monotonic()
            report = self.vernier("verify", engine, "--model", path)
            return report, self.steps_of(engine), time.monotonic() - start


def row(name, mode, report, steps, seconds):
    """One line of the table of models: of the output that comes closest to its limit."""
    floats = [o for o in report["outputs"] if o["all_cells"]["rms_reference"] > 0]
    worst = max(floats, key=lambda o: ratio(o["all_cells"]["rms"], o["noise_rms"]))
    error, scale = worst["all_cells"]["rms"], worst["all_cells"]["rms_reference"]
    rankings = sum(o["rankings"] for o in floats)
    changes = f"{sum(o['top1_changes'] for o in floats)} of {rankings}" if rankings else "–"
    passed = sum(c["verdict"] == "pass" for c in report["cells"])
    count, narrow, widened = steps
    cells = [name, mode, report["verdict"], f"{passed} of {len(report['cells'])}",
             f"{ratio(error, scale):.1e}", f"{ratio(worst['noise_rms'], scale):.1e}",
             f"{ratio(error, worst['noise_rms']):.2f}", changes,
             f"{worst['worst_row']} of {worst['worst_cell']}", f"{narrow} of {count}", str(widened),
             f"{seconds:.1f}"]
    return "| " + " | ".join(cells) + " |"


def cell_rows(name, reports):
    """Lines of the table of cells of a model: the share of its limits that each cell takes up."""
    labels = []
    for report in reports.values():
        labels += [c["label"] for c in report["cells"] if c["label"] not in labels]
    lines = []
    for label in labels:
        shown = []
        for report in reports.values():
            cell = next((c for c in report["cells"] if c["label"] == label), None)
            good = cell and cell["verdict"] == "pass"
            shown.append("–" if not cell else
                         f"{cell['share_of_limit']:.2f} ({cell['worst']:.0e})" if good
                         else cell["verdict"])
        lines.append(f"| {name} | {label} | " + " | ".join(shown) + " |")
    return lines


def write(device, lines):
    begin, end = BEGIN.format(device), END.format(device)
    before, rest = PAGE.read_text().split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--program", default=str(ROOT / "build/release/vernier"))
    parser.add_argument("--jobs", type=int, default=1, help="engines to verify in parallel; makes each one slower")
    parser.add_argument("--dry", action="store_true", help="print, and write nothing")
    options = parser.parse_args(arguments)
    table = Table(options.program, options.device)
    lines, wrong = [HEAD], []
    cells = ["| model | cell | " + " | ".join(MODES) + " |", "|---|---|" + "---|" * len(MODES)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        asked = [(name, {mode: pool.submit(table.verify, path, mode) for mode in MODES})
                 for name, path in models()]
        for name, modes in asked:
            reports = {}
            for mode, future in modes.items():
                report, steps, seconds = future.result()
                reports[mode] = report
                lines.append(row(name, mode, report, steps, seconds))
                print(lines[-1], flush=True)
                if report["verdict"] != "pass":
                    wrong.append(f"{name} {mode}: {report['explanation']}")
            cells += cell_rows(name, reports)
    if not options.dry:
        write(options.device, lines + ["", "Share of the limits of an element, and the largest "
                                       "error as a part of 1+|R|, by cell:", "", *cells])
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
