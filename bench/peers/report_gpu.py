"""What a comparison with PyTorch on a GPU comes to: cells, operations, errors, the table, the verdict.
No packages. The files that bench/peers/gpu.py writes hold cells
  {"model", "cell", "type", "flops", "floor_ms",
   "pytorch" | "vernier": {"median_ms", …}, "compiled": {"compile_s", "median_ms"}}
and one entry per model and type, {"model", "type", "build", "accuracy"} (docs/measuring.md).
"""
import math
import random
import re

import report

# Milliseconds that FP16 must reach on one H200.
GOALS_MS = {("large", "b1s128"): 0.72, ("base", "b1s128"): 0.33, ("large", "b32s128"): 4.4,
            ("large", "b32s512"): 18.3, ("base", "b128s128"): 5.2, ("minilm", "b128s128"): 1.0,
            ("large", "mixed"): 14.0}
GOAL_BUILD_S = 20  # the large model, cold, to its first result
MOST_ERROR = 2     # times PyTorch's in the same type, both against FP64
# Of the outputs' rms, where PyTorch is in FP16.
MOST_QUANTIZED_ERROR = {"int8": 0.05, "fp8": 0.1}
SMALL_ERROR = 1e-6  # of the outputs' rms: below it both are exact enough
MIXED = {"rows": 64, "mean": 175, "longest": 512}


def mixed_lengths(rows, mean, longest, seed=1):
    """Row lengths such as queries with documents have: log-normal, cut at `longest`, at least one of
    that length, with the mean exactly as given."""
    draws = [random.Random(seed * 1000 + row).lognormvariate(0, 0.75) for row in range(rows)]

    def scaled(scale):
        return [min(longest, max(1, round(draw * scale))) for draw in draws]

    low, high = 0.0, longest / min(draws)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(scaled(middle)) < rows * mean else (low, middle)
    lengths = scaled(high)
    shortest = lengths.index(min(lengths))
    longer = max((i for i in range(rows) if lengths[i] < longest), key=lambda i: lengths[i])
    surplus = sum(lengths) - rows * mean
    lengths[longer if surplus > 0 else shortest] -= surplus
    return lengths


def cell_lengths(cell):
    """The length of every row of a cell: "b32s128" or "mixed"."""
    if cell == "mixed":
        return mixed_lengths(**MIXED)
    match = re.fullmatch(r"b([1-9]\d*)s([1-9]\d*)", cell)
    if not match:
        raise ValueError(f"there is no cell '{cell}'; write bBATCHsLENGTH or mixed")
    batch, length = map(int, match.groups())
    return [length] * batch


def flops(sizes, lengths):
    """2 × multiply-adds of the matrix products and attention over the real tokens."""
    hidden, ffn = sizes["hidden"], sizes["ffn"]
    linear = 2 * (4 * hidden * hidden + 2 * hidden * ffn) * sum(lengths)
    attention = 4 * hidden * sum(length * length for length in lengths)
    return sizes["layers"] * (linear + attention)


def errors(got, truth):
    """report.difference(), and the rms of got - truth as a share of the rms of truth."""
    result = report.difference(got, truth)
    result["rms"] = math.inf
    if math.isfinite(result["max_abs"]):
        result["rms"] = math.sqrt(sum((a - b)**2 for a, b in zip(got, truth))
                                  / sum(b * b for b in truth))
    return result


def accurate(accuracy, kind):
    """Is Vernier's error at most MOST_ERROR times PyTorch's in this type? In INT8 and FP8: at
    most MOST_QUANTIZED_ERROR."""
    if kind in MOST_QUANTIZED_ERROR:
        return accuracy["vernier"]["rms"] <= MOST_QUANTIZED_ERROR[kind]
    limit = MOST_ERROR * accuracy["pytorch"]["rms"] + SMALL_ERROR
    return accuracy["vernier"]["rms"] <= limit


def tflops(cell, subject):
    return cell["flops"] / cell[subject]["median_ms"] / 1e9


HEAD = ("model   cell      type   floor ms  PyTorch ms  compiled  Vernier ms   goal  "
        "PyTorch/V  V/floor  TFLOP/s PyTorch, Vernier  of ceiling")


def milliseconds(value, width):
    return f"{'-' if value is None else f'{value:.3f}':>{width}}"


def row(cell, ceiling=None):
    """One line of the table. What was not measured is a dash."""
    ours, peer, floor = (cell.get("vernier"), cell.get("pytorch"), cell.get("floor_ms"))
    compiled = cell.get("compiled", {}).get("median_ms")
    goal = GOALS_MS.get((cell["model"], cell["cell"])) if cell["type"] == "fp16" else None
    rate = ours and tflops(cell, "vernier")
    ratios = [f"{peer['median_ms'] / ours['median_ms']:.2f}x" if ours and peer else "-",
              f"{ours['median_ms'] / floor:.2f}x" if ours and floor else "-",
              f"{tflops(cell, 'pytorch'):.1f}" if peer else "-", f"{rate:.1f}" if ours else "-",
              f"{100 * rate / ceiling:.0f} %" if ours and ceiling else "-"]
    return (f"{cell['model']:<7} {cell['cell']:<9} {cell['type']:<5} {milliseconds(floor, 9)} "
            f"{milliseconds(peer and peer['median_ms'], 11)} {milliseconds(compiled, 9)} "
            f"{milliseconds(ours and ours['median_ms'], 11)} "
            f"{'-' if goal is None else goal:>6} {ratios[0]:>10} {ratios[1]:>8} "
            f"{ratios[2]:>16} {ratios[3]:>8} {ratios[4]:>11}")


def yes(value):
    return "yes" if value else "NO"


def engine_lines(engine):
    """What is told of a model in one type beside its times."""
    name, build, accuracy = f"{engine['model']} {engine['type']}", engine.get("build"), \
        engine.get("accuracy")
    lines = []
    if build:
        fallback = build["fallback_steps"]
        lines.append(f"{name}: built in {build['seconds']:.1f} s"
                     + (f", first result after {build['first_result_s']:.1f} s"
                        if "first_result_s" in build else "")
                     + (f"; again from the record in {build['again_s']:.1f} s, the same bytes: "
                        f"{yes(build['same_bytes'])}" if "same_bytes" in build else "")
                     + (f"; {fallback} STEPS ON THE FP64 EVALUATOR" if fallback else ""))
    if accuracy:
        peer, ours = accuracy["pytorch"], accuracy["vernier"]
        lines.append(f"{name}: against FP64 PyTorch is off by rms {peer['rms']:.1e}, max "
                     f"{peer['max_abs']:.1e}; Vernier by rms {ours['rms']:.1e}, max "
                     f"{ours['max_abs']:.1e}"
                     f"{'' if accurate(accuracy, engine['type']) else '  WRONG'}; rows bitwise equal in batches of 1, 4 and {accuracy['rows']}: PyTorch "
                     f"{yes(peer['rows_equal'])}, Vernier {yes(ours['rows_equal'])}; the first row "
                     f"alone and among 4: PyTorch {yes(peer['first_equal'])}, Vernier "
                     f"{yes(ours['first_equal'])}")
    return lines


def verdict(result):
    """0, or 1 if something failed, answers are wrong, a row's bits depend on its batch or a build is
    not repeatable. Times decide nothing."""
    engines = result["engines"]
    good = all(engine.get("build", {}).get("same_bytes", True) for engine in engines)
    good &= all(accurate(engine["accuracy"], engine["type"])
                and engine["accuracy"]["vernier"]["rows_equal"]
                for engine in engines if "accuracy" in engine)
    return 0 if good and not result["failures"] else 1
