"""What a comparison with peers comes to: quantiles, differences, the table, the verdict. No packages.

A cell is a dictionary as bench/peers/cpu.py makes it:
  {"model", "batch", "length", "floor" | "onnxruntime" | "vernier": {"windows_ms": [[…], …]},
   "difference": {"max_abs", "worst"}}
"""
import math

# Each engine may be 1e-5·(1 + |ref|) from the truth (docs/testing.md), so two of them twice that.
TOLERANCE = 2e-5
GOAL_FLOOR, GOAL_BATCH = 1.12, 8.0
SUBJECTS = ("floor", "onnxruntime", "vernier")


def quantile(values, q):
    """The value below which a share q of the values lies, without interpolation."""
    ordered = sorted(values)
    return ordered[int(q * (len(ordered) - 1))]


def summary(windows):
    """Median, p10 and p90 of all runs, and how far the medians of the windows drifted apart."""
    runs = [time for window in windows for time in window]
    medians = [quantile(window, 0.5) for window in windows]
    return {
        "median_ms": quantile(runs, 0.5),
        "p10_ms": quantile(runs, 0.1),
        "p90_ms": quantile(runs, 0.9),
        "runs": len(runs),
        "window_medians_ms": medians,
        "drift": max(medians) / min(medians) - 1,
    }


def difference(got, want):
    """Largest |got - want|, and largest |got - want| / (1 + |want|). Infinite for answers that show
    nothing: of other lengths, none, not finite, all zero or all alike."""
    if len(got) != len(want) or not want:
        return {"max_abs": math.inf, "worst": math.inf}
    if not all(map(math.isfinite, got)) or not all(map(math.isfinite, want)):
        return {"max_abs": math.inf, "worst": math.inf}
    constant = len(want) > 1 and len(set(want)) == 1
    if constant or not any(want):
        return {"max_abs": math.inf, "worst": math.inf}  # such answers agree with anything
    gaps = [(abs(a - b), abs(a - b) / (1 + abs(b))) for a, b in zip(got, want)]
    return {"max_abs": max(gap for gap, _ in gaps), "worst": max(share for _, share in gaps)}


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def median(cell, subject):
    return cell[subject]["median_ms"]


def agrees(cell):
    return cell["difference"]["worst"] <= TOLERANCE


HEAD = ("model         cell       floor ms   ORT ms  Vernier ms  p10..p90        Vernier/floor  "
        "ORT/Vernier  max abs diff")


def row(cell):
    """One line of the table."""
    got = cell["vernier"]
    spread = f"{got['p10_ms']:.2f}..{got['p90_ms']:.2f}"
    name = f"b{cell['batch']} s{cell['length']}"
    return (f"{cell['model']:<13} {name:<9} {median(cell, 'floor'):>9.2f} "
            f"{median(cell, 'onnxruntime'):>8.2f} {median(cell, 'vernier'):>11.2f}  {spread:<15} "
            f"{median(cell, 'vernier') / median(cell, 'floor'):>12.2f}x "
            f"{median(cell, 'onnxruntime') / median(cell, 'vernier'):>11.2f}x  "
            f"{cell['difference']['max_abs']:.1e}{'' if agrees(cell) else '  DIFFERS'}")


def model_lines(cells):
    """Per model: the geometric means over its cells, and the cell farthest from its floor."""
    lines = []
    for model in dict.fromkeys(cell["model"] for cell in cells):
        own = [cell for cell in cells if cell["model"] == model]
        peer = [median(cell, "onnxruntime") / median(cell, "vernier") for cell in own]
        floor = [median(cell, "vernier") / median(cell, "floor") for cell in own]
        lines.append(f"{model}: {geometric_mean(peer):.2f}x as fast as ONNX Runtime (geometric "
                     f"mean; worst cell {min(peer):.2f}x), {geometric_mean(floor):.2f}x its floor "
                     f"(worst cell {max(floor):.2f}x, goal {GOAL_FLOOR}x)")
    return lines


def batch_line(batch):
    """`batch`: {"model", "cost": b8 s128 over b1 s128, "rows_equal"}."""
    cost = "yes" if batch["cost"] <= GOAL_BATCH else "NO"
    rows = "yes" if batch["rows_equal"] else "NO"
    return (f"{batch['model']}: b8 s128 costs {batch['cost']:.2f}x of b1 s128 (goal {GOAL_BATCH}x: "
            f"{cost}), rows bitwise equal: {rows}")


def verdict(cells, batches):
    """0, or 1 if outputs differ or a row's bits depend on its batch. Times decide nothing."""
    return 0 if all(map(agrees, cells)) and all(b["rows_equal"] for b in batches) else 1
