#!/usr/bin/env python3
"""Plans and outputs of every example model as hashes: what did a change to the compiler alter?

    python3 tools/fingerprint.py build/release/vernier -o before.json
    python3 tools/fingerprint.py build/release/vernier --against before.json
    python3 tools/fingerprint.py build/cuda/vernier --device cuda -o before.json

Each model of tests/models is built in each mode and run on all of its stored cases, with no option
that times anything. A row holds the hash of the plan (steps, kernels, types, shapes: what `inspect
--plan` prints), the kernels' names, and the hash of every output's bytes. --against prints what
differs, one line each, and exits with 1 if anything does. Needs no package.
"""
import argparse
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "models"
MODES = ("fp32", "tf32", "fp16", "bf16")
PREFIX = "in."  # of inputs in a stored case


def digest(*parts):
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()[:16]


def command(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def inputs_of(case, folder):
    """A stored case's inputs alone, under the names that the engine has for them."""
    target = folder / "inputs.npz"
    with zipfile.ZipFile(case) as source, zipfile.ZipFile(target, "w") as sink:
        for name in source.namelist():
            if name.startswith(PREFIX):
                sink.writestr(name[len(PREFIX):], source.read(name))
    return target


def outputs_of(archive):
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as source:
        return digest(*(name.encode() + source.read(name) for name in sorted(source.namelist())))


def as_recorded(plan):
    """The plan with tensors as text ("f32[batch, 64]", "-"): the form of earlier records, whose
    hashes stay comparable."""
    def text(tensor):
        return (tensor if isinstance(tensor, str) else "-" if tensor is None else
                f"{tensor['type']}[{', '.join(map(str, tensor['shape']))}]")
    for step in plan["steps"]:
        step["name"] = step.pop("node", step.get("name"))
        for key in ("inputs", "outputs"):
            step[key] = [text(tensor) for tensor in step[key]]
    return plan


def fingerprint(program, model, mode, device, folder):
    engine = folder / "engine.vn"
    options = [] if device == "cpu" else ["--device", device]
    command(program, "build", model / "model.onnx", "-o", engine, f"--{mode}", *options)
    plan = as_recorded(json.loads(command(program, "inspect", engine, "--plan", "--json")))
    steps = [f"{step['kernel']} {' '.join(step['inputs'])} -> {' '.join(step['outputs'])}"
             for step in plan["steps"]]
    cases = {}
    for case in sorted(model.glob("case_*.npz")):
        command(program, "run", engine, "--inputs", inputs_of(case, folder), "-o",
                folder / "outputs.npz")
        cases[case.name] = outputs_of(folder / "outputs.npz")
    return {"plan": digest(json.dumps(plan, sort_keys=True).encode()), "steps": steps,
            "outputs": cases}


def all_fingerprints(program, device):
    rows = {}
    for model in sorted(path.parent for path in MODELS.glob("*/model.onnx")):
        for mode in MODES:
            with tempfile.TemporaryDirectory() as folder:
                name = f"{model.name} {mode}"
                try:
                    rows[name] = fingerprint(program, model, mode, device, pathlib.Path(folder))
                except RuntimeError as error:
                    rows[name] = {"error": str(error).replace(folder, "")}
    return rows


def differences(before, after):
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            yield f"{name}: only {'after' if old is None else 'before'}"
            continue
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) == new.get(key):
                continue
            if key != "steps":
                yield f"{name}: {key}: {old.get(key)} before, {new.get(key)} after"
                continue
            for at, (a, b) in enumerate(zip(old[key], new[key])):
                if a != b:
                    yield f"{name}: step {at}: {a} before, {b} after"
            if len(old[key]) != len(new[key]):
                yield f"{name}: {len(old[key])} steps before, {len(new[key])} after"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a build's vernier")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="file for the fingerprints (JSON)")
    parser.add_argument("--against", type=pathlib.Path, help="fingerprints to compare with")
    options = parser.parse_args()
    rows = all_fingerprints(options.program, options.device)
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n",
                                  encoding="utf-8")
    failed = [name for name, row in rows.items() if "error" in row]
    runs = sum(len(row.get("outputs", ())) for row in rows.values())
    print(f"{len(rows)} builds, {runs} runs, {len(failed)} refused")
    for name in failed:
        print(f"  {name}: {rows[name]['error']}")
    if not options.against:
        return 0
    found = list(differences(json.loads(options.against.read_text(encoding="utf-8")), rows))
    print("\n".join(found) if found else "no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
