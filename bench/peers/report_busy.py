"""What sessions that share a machine must reach, and the table of what they did. No packages.

A cell is a dictionary as bench/peers/busy.py makes it:
  {"shape": "1x16", "sessions": 4, "kind": "threads" | "processes", "load": false,
   "vernier" | "one" | "onnxruntime": {"per_s", "median_ms", "p99_ms", "runs"}}
"""
SUBJECTS = ("vernier", "one", "onnxruntime")
LEAST_OF_ONE = 0.95  # throughput, of one thread per session
MOST_OF_IDLE = 2.5   # median under a load as large as the machine, of the idle one


def quantile(values, q):
    """The value below which a share q of the values lies, without interpolation."""
    ordered = sorted(values)
    return ordered[int(q * (len(ordered) - 1))]


def rate(window):
    """Runs per second of all sessions of a window. A session ends with the run in which its time is
    over: it counts with the time of its own runs, so that a long last run is no rounding error."""
    return sum(len(runs) / (sum(runs) / 1e3) for runs in window if runs)


def summary(windows):
    """Of windows, each a list of sessions, each a list of its runs in milliseconds: runs per second as
    the median of the windows, the median and the 99th percentile of all runs."""
    runs = [time for window in windows for session in window for time in session]
    return {"per_s": quantile([rate(window) for window in windows], 0.5),
            "median_ms": quantile(runs, 0.5), "p99_ms": quantile(runs, 0.99), "runs": len(runs)}


HEAD = ("shape  sessions in         load   "
        "Vernier  runs/s median    p99   one thread  runs/s median    p99"
        "   ORT  runs/s median    p99 ms")


def row(cell):
    """One line of the table."""
    figures = "   ".join(
        f"{cell[subject]['per_s']:>{width}.1f} {cell[subject]['median_ms']:>6.2f} "
        f"{cell[subject]['p99_ms']:>6.1f}"
        for subject, width in zip(SUBJECTS, (15, 18, 11)))
    return (f"{cell['shape']:<6} {cell['sessions']:>8} {cell['kind']:<10} "
            f"{'cores' if cell['load'] else 'idle':<6} {figures}")


def name(cell):
    return (f"{cell['shape']}, {cell['sessions']} in {cell['kind']}, "
            f"{'load = cores' if cell['load'] else 'idle'}")


def same_but_idle(cells, cell):
    """The cell without load beside one with it, or None."""
    same = ("shape", "sessions", "kind")
    return next((other for other in cells if not other["load"]
                 and all(other[key] == cell[key] for key in same)), None)


def missed(cells):
    """Every goal that a cell misses, as a line."""
    lines = []
    for cell in cells:
        got, one, peer = (cell[subject] for subject in SUBJECTS)

        def demand(met, text, cell=cell):
            if not met:
                lines.append(f"{name(cell)}: {text}")

        demand(got["per_s"] >= peer["per_s"],
               f"{got['per_s']:.1f} runs/s, ONNX Runtime {peer['per_s']:.1f}")
        demand(got["per_s"] >= LEAST_OF_ONE * one["per_s"],
               f"{got['per_s']:.1f} runs/s, one thread per session {one['per_s']:.1f}")
        if not cell["load"]:
            continue
        demand(got["p99_ms"] <= peer["p99_ms"],
               f"p99 {got['p99_ms']:.1f} ms, ONNX Runtime {peer['p99_ms']:.1f}")
        idle = same_but_idle(cells, cell)
        if idle:
            most = MOST_OF_IDLE * idle["vernier"]["median_ms"]
            demand(got["median_ms"] <= most,
                   f"median {got['median_ms']:.2f} ms, {MOST_OF_IDLE} times idle is {most:.2f}")
    return lines


def verdict_lines(cells, lines):
    if not lines:
        return [f"all {len(cells)} cells reach the goals"]
    return [f"goals missed: {len(lines)}", *("  " + line for line in lines)]
