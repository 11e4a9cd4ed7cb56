"""What sessions that share a machine must reach, and the table of what they did. No packages.

A cell is a dictionary as bench/peers/busy.py makes it:
  {"shape": "1x16", "sessions": 4, "kind": "threads" | "processes", "load": false,
   "vernier" | "one" | "onnxruntime": {"per_s", "median_ms", "p99_ms", "runs"},
   "of_one" | "of_peer": {"median", "low", "high"}}     Vernier's runs/s, window by window, as a
                                                         share of the others', 95 % interval
A share misses its goal where the interval lies below it, and is open where only the median does.
"""
from pairs import interval

SUBJECTS = ("vernier", "one", "onnxruntime")
LEAST_OF_ONE = 0.95  # throughput, of one thread per session
LEAST_OF_PEER = 1.0
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


def ratio(ours, others):
    """Runs per second of `ours`, window by window, as a share of that of `others`: the median and its
    95 % interval (bootstrap over the pairs of windows)."""
    shares = [rate(our) / rate(other) for our, other in zip(ours, others)]
    return dict(zip(("median", "low", "high"), interval(shares)))


HEAD = ("shape  sessions in         load   "
        "Vernier  runs/s median    p99   one thread  runs/s median    p99"
        "   ORT  runs/s median    p99 ms     of one thread           of ORT")


def row(cell):
    """One line of the table."""
    figures = "   ".join(
        f"{cell[subject]['per_s']:>{width}.1f} {cell[subject]['median_ms']:>6.2f} "
        f"{cell[subject]['p99_ms']:>6.1f}"
        for subject, width in zip(SUBJECTS, (15, 18, 11)))
    shares = "   ".join("{median:.2f} ({low:.2f}-{high:.2f})".format(**cell[of])
                        for of in ("of_one", "of_peer"))
    return (f"{cell['shape']:<6} {cell['sessions']:>8} {cell['kind']:<10} "
            f"{'cores' if cell['load'] else 'idle':<6} {figures}   {shares}")


def name(cell):
    return (f"{cell['shape']}, {cell['sessions']} in {cell['kind']}, "
            f"{'load = cores' if cell['load'] else 'idle'}")


def same_but_idle(cells, cell):
    """The cell without load beside one with it, or None."""
    same = ("shape", "sessions", "kind")
    return next((other for other in cells if not other["load"]
                 and all(other[key] == cell[key] for key in same)), None)


def judged(cells):
    """Every goal that a cell misses, and every goal that is open, as lines."""
    missed, undecided = [], []
    for cell in cells:
        def share(of, least, what, cell=cell):
            got = cell[of]
            if got["median"] < least:
                (missed if got["high"] < least else undecided).append(
                    "{}: {median:.3f} ({low:.3f} to {high:.3f}) of the runs of {}, goal {}".format(
                        name(cell), what, least, **got))

        share("of_peer", LEAST_OF_PEER, "ONNX Runtime")
        share("of_one", LEAST_OF_ONE, "one thread per session")
        if not cell["load"]:
            continue
        got, peer = cell["vernier"], cell["onnxruntime"]
        if got["p99_ms"] > peer["p99_ms"]:
            missed.append(f"{name(cell)}: p99 {got['p99_ms']:.1f} ms, ONNX Runtime "
                          f"{peer['p99_ms']:.1f}")
        idle = same_but_idle(cells, cell)
        most = MOST_OF_IDLE * idle["vernier"]["median_ms"] if idle else got["median_ms"]
        if got["median_ms"] > most:
            missed.append(f"{name(cell)}: median {got['median_ms']:.2f} ms, {MOST_OF_IDLE} times "
                          f"idle is {most:.2f}")
    return missed, undecided


def verdict_lines(cells, missed, undecided):
    if not missed and not undecided:
        return [f"all {len(cells)} cells reach the goals"]
    lines = [f"goals missed: {len(missed)}", *("  " + line for line in missed)]
    if undecided:
        lines += [f"goals within the noise: {len(undecided)}", *("  " + line for line in undecided)]
    return lines
