#!/usr/bin/env python3
"""Checks the include order between the folders of src/, include/ and python/.

Usage: layering.py ROOT      (./dev layering)
The order is the table below and nothing else; docs/architecture.md shows it. A wrong include is
printed as file:line, what it includes, and what its folder may include. Two more errors: a rule
for files that do not exist, and a public header that names a namespace of src/. Exit 1 if there is
any error.
"""
import pathlib
import re
import sys

# The layers, lowest first: name -> (path prefixes, names of the layers it may include besides
# itself). The longest prefix that fits a file decides its layer. Prefixes are relative to the
# include root (src/, include/ or python/), as in #include "core/dim.h".
BASE = ["api"]
BUILD = BASE + ["core", "rules", "ir", "ops"]
DATA = BASE + ["core", "plan data", "engine reader"]
LAYERS = {
    "operator table": (["ops/ops.def"], []),  # data: anyone may include it
    "api": (["vernier/canary.h", "vernier/certificate.h", "vernier/custom_op.h", "vernier/dtype.h",
             "vernier/error.h", "vernier/kernel_set.h", "vernier/limits.h", "vernier/nearest.h",
             "vernier/printable.h", "vernier/process.h", "vernier/promotion.h", "vernier/tensor.h",
             "vernier/verdict.h", "vernier/version.h"],
            []),
    "api of runtime": (["vernier/engine.h", "vernier/packed.h", "vernier/plugins.h",
                        "vernier/session.h", "vernier/synthetic.h"],
                       BASE),
    "api of compile": (["vernier/compare.h", "vernier/compile.h", "vernier/extract.h",
                        "vernier/inspect.h"],
                       BASE + ["api of runtime"]),
    "api of calibrate": (["vernier/calibrate.h"], BASE),
    "api of verify": (["vernier/bisect.h", "vernier/localise.h", "vernier/reduce.h",
                       "vernier/verify.h"], BASE + ["api of runtime", "api of compile"]),
    "core": (["core/"], BASE),
    "reference": (["reference/"], BASE + ["core"]),
    "rules": (["rules/"], BASE + ["core"]),
    "ir": (["ir/"], BASE + ["core"]),
    "ops": (["ops/"], BASE + ["core", "rules", "ir", "reference"]),
    "onnx": (["onnx/"], BUILD),
    "model writer": (["onnx/model_writer"], BASE + ["core", "onnx"]),
    "make model": (["make_model/"], BASE + ["core", "model writer"]),
    "analysis": (["analysis/"], BUILD),
    "passes": (["passes/"], BUILD + ["analysis"]),
    "precision": (["precision/"], BUILD + ["analysis"]),
    "io": (["io/"], BASE + ["core"]),
    "demo": (["demo/"], BASE + ["io"]),
    "kernel contract": (["backend/kernel.h", "backend/kernel.cpp", "backend/body.h",
                         "backend/body.cpp", "backend/elementwise.h",
                         "backend/elementwise.cpp", "backend/elementwise_ops.def",
                         "backend/device_memory.h", "backend/elements.h",
                         "backend/operands.h", "backend/operands.cpp",
                         "backend/supports.h", "backend/supports.cpp"],
                        BASE + ["core"]),
    "cpu": (["backend/cpu/"], BASE + ["core", "kernel contract"]),
    "cuda": (["backend/cuda/"], BASE + ["core", "kernel contract"]),
    "plan data": (["plan/plan.h"], BASE + ["core"]),
    "engine reader": (["engine/"], BASE + ["core", "plan data"]),
    "planner": (["plan/"], BUILD + ["analysis", "passes", "precision", "kernel contract",
                                 "plan data"]),
    "engine writer": (["engine/writer"], DATA),
    "evaluate": (["evaluate/"], BASE + ["core", "reference", "rules", "ir", "kernel contract",
                                        "plan data", "runtime", "api of verify"]),
    "runtime": (["runtime/"], DATA + ["rules", "api of runtime", "kernel contract", "cpu", "cuda"]),
    "compile": (
        ["compile/"],
        BUILD + DATA + ["onnx", "analysis", "passes", "precision", "kernel contract", "cpu", "cuda",
                        "planner", "engine writer", "evaluate", "runtime", "api of runtime", "api of compile"],
    ),
    "calibrate": (
        ["calibrate/"],
        BUILD + DATA + ["onnx", "passes", "precision", "io", "kernel contract", "planner", "evaluate",
                        "runtime", "compile", "api of runtime", "api of compile",
                        "api of calibrate"],
    ),
    "verify": (
        ["verify/"],
        BUILD + DATA + ["onnx", "passes", "precision", "io", "kernel contract", "planner",
                        "engine writer", "reference", "evaluate", "runtime", "compile",
                        "api of runtime", "api of compile", "api of verify"],
    ),
    "cli": (
        ["cli/"],
        BASE + ["api of runtime", "api of compile", "api of calibrate", "api of verify", "io",
                "make model", "demo", "program"],
    ),
    "program": (["cli/program.h"], []),
    "python": (
        ["bindings/"],
        BASE + ["api of runtime", "api of compile", "api of calibrate", "api of verify", "program"],
    ),
}

# Other people's headers that belong to a few layers only.
THIRD_PARTY = {
    "gtest/": [],
    "gmock/": [],
    "CLI/": ["cli"],
    "nanobind/": ["python"],
    "google/protobuf/": ["onnx", "model writer"],
    "dnnl": ["cpu"],
    "oneapi/dnnl": ["cpu"],
    "hwy/": ["cpu", "reference"],
    "cuda": ["cuda"],
    "cublas": ["cuda"],
    "zip.h": ["io"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAMESPACE = re.compile(r"^\s*namespace ((?:\w+::)*\w+) *\{")
# What public headers may declare; every other namespace of src/ is internal.
PUBLIC_NAMESPACES = {"vernier", "verify"}


def layer_of(path):
    """The layer of a path relative to its include root, or None."""
    best, length = None, -1
    for name, (prefixes, _) in LAYERS.items():
        for prefix in prefixes:
            if path.startswith(prefix) and len(prefix) > length:
                best, length = name, len(prefix)
    return best


def wrong_include(layer, bracket, target, known):
    """Why this include is wrong for a file of `layer`, or None."""
    if bracket == '"' and target in known:
        allowed = LAYERS[layer][1]
        other = layer_of(target)
        if other in (layer, "operator table") or other in allowed:
            return None
        names = ", ".join(dict.fromkeys(allowed)) or "nothing"
        return f'includes "{target}" ({other}); {layer} may include: {names}'
    for prefix, layers in THIRD_PARTY.items():
        if target.startswith(prefix) and layer not in layers:
            only = ", ".join(layers) or "tests"
            return f"includes <{target}>; only {only} may include {prefix}*"
    return None


def namespaces_of(text):
    """Names of the namespaces that a file opens: {"vernier", "backend", "cpu"}."""
    return {name for line in text.splitlines() if (found := NAMESPACE.match(line))
            for name in found.group(1).split("::")}


def internal_names(sources):
    """A pattern for names of internal namespaces, as a public header could write them."""
    internal = set().union(*(namespaces_of(path.read_text(encoding="utf-8"))
                             for relative, path in sources.items()
                             if not relative.startswith("vernier/"))) - PUBLIC_NAMESPACES
    names = "|".join(sorted(internal)) or "(?!)"
    return re.compile(rf"\b(?:namespace\s+(?:\w+::)*({names})\b|({names})::)")


def internal_uses(shown, text, pattern):
    """Complaints about a public header that names an internal namespace outside its comments."""
    for number, line in enumerate(text.splitlines(), 1):
        found = pattern.search(line.split("//")[0])
        if found:
            name = found.group(1) or found.group(2)
            yield (f"{shown}:{number}: names the namespace '{name}' of src/; a public header has "
                   "public types only")


def check(root):
    """Returns (number of files, list of complaints)."""
    sources = {}
    for base in ("src", "include", "python"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".def", ".inc"):
                sources[path.relative_to(root / base).as_posix()] = path
    whole = (root / "tools" / "layering.py").exists()  # not a part of a tree, for a test
    complaints = [f'tools/layering.py: layer "{name}" names {prefix}, which no file has'
                  for name, (prefixes, _) in LAYERS.items() for prefix in prefixes
                  if whole and not any(relative.startswith(prefix) for relative in sources)]
    internal = internal_names(sources)
    for relative, path in sources.items():
        shown = path.relative_to(root).as_posix()
        layer = layer_of(relative)
        if layer is None:
            complaints.append(f"{shown}:1: its folder is in no layer; add it to tools/layering.py")
            continue
        text = path.read_text(encoding="utf-8")
        if relative.startswith("vernier/"):
            complaints.extend(internal_uses(shown, text, internal))
        for number, line in enumerate(text.splitlines(), 1):
            found = INCLUDE.match(line)
            why = found and wrong_include(layer, found.group(1), found.group(2), sources)
            if why:
                complaints.append(f"{shown}:{number}: {why}")
    return len(sources), complaints


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    count, complaints = check(pathlib.Path(sys.argv[1]))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if complaints:
        return 1
    print(f"layering: {count} files, every include is allowed, public headers name public types")
    return 0


if __name__ == "__main__":
    sys.exit(main())
