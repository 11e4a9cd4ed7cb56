#!/usr/bin/env python3
"""Runs docs/notebooks: the code cells of each, in order, in one namespace, with the wheel installed.

Usage: notebooks.py FOLDER_OF_THE_WHEEL [NAME]...    NAME: only these notebooks
Needs no Jupyter. Any exception fails. A notebook is small and stores no outputs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from run import installed

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 20_000
CELLS = """
import json, sys
names = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1], encoding="utf-8"))["cells"]):
    if cell["cell_type"] == "code":
        print(f"-- cell {number}", flush=True)
        exec(compile("".join(cell["source"]), f"cell {number} of {sys.argv[1]}", "exec"), names)
"""


def wrong_in(notebook):
    """What a reader of the file would stumble over; "" if nothing."""
    book = json.loads(notebook.read_text(encoding="utf-8"))
    if notebook.stat().st_size > MOST_BYTES:
        return f"more than {MOST_BYTES} bytes"
    if not any(cell["cell_type"] == "code" for cell in book["cells"]):
        return "no code"
    if any(cell.get("outputs") or cell.get("execution_count") for cell in book["cells"]):
        return "outputs are stored; clear them"
    return ""


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    names, failed = sys.argv[2:], []
    notebooks = [path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
                 if not names or path.name in names]
    if not notebooks:
        sys.exit(f"no notebook in {ROOT / 'docs' / 'notebooks'} has one of the names {names}")
    with installed(sys.argv[1]) as environment:
        for notebook in notebooks:
            print(f"== {notebook.name}", flush=True)
            reason = wrong_in(notebook)
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "tests").symlink_to(ROOT / "tests")
                (pathlib.Path(folder) / "examples").symlink_to(ROOT / "examples")
                done = subprocess.run([sys.executable, "-c", CELLS, notebook], cwd=folder,
                                      env=dict(environment, TMPDIR=folder), check=False)
            if reason or done.returncode != 0:
                failed.append(notebook.name)
                print(f"FAILED {notebook.name}: {reason or 'a cell, see above'}; run: "
                      f"{sys.executable} {__file__} {sys.argv[1]} {notebook.name}")
    print(f"{len(notebooks)} notebooks ran, {len(failed)} failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
