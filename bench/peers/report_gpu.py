"""What a comparison with peers on a GPU comes to: cells, operations, errors, table and verdict.
No packages. The files that bench/peers/gpu.py writes hold cells
  {"model", "cell", "type", "flops", "floor_ms", "pytorch" | "vernier" | PEER: {"median_ms", …},
   "compiled" | "unpadded_compiled": {"compile_s", "median_ms"}}
and one entry per model and type, {"model", "type", "build", "accuracy", "left_out": {PEER: reason},
"offline"} (docs/measuring.md). PEER is one of PEERS.
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
# Beside eager, padded PyTorch, which has times and answers for every cell; the JSON's name and the
# table's.
PEERS = {"unpadded": "unpadded", "ort": "ORT", "ort_packed": "ORT packed"}
MOST_PEER_ERROR = 4  # times padded PyTorch's: beyond it a peer computes something else
MOST_UNLIKE = 0.05  # rms of a peer's answers in a cell against padded PyTorch's
MIXED = {"rows": 64, "mean": 175, "longest": 512}
ONE_LONG = [512] + [8] * 63
DENSE = {"onelong": "b8s127"}  # cells with as many tokens, all rows alike


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
    """The length of every row of a cell: "b32s128", "40+3+17", "mixed" or "onelong"."""
    if cell == "mixed":
        return mixed_lengths(**MIXED)
    if cell == "onelong":
        return list(ONE_LONG)
    if re.fullmatch(r"[1-9]\d*(\+[1-9]\d*)+", cell):
        return [int(length) for length in cell.split("+")]
    match = re.fullmatch(r"b([1-9]\d*)s([1-9]\d*)", cell)
    if not match:
        raise ValueError(f"there is no cell '{cell}'; write bBATCHsLENGTH, lengths as 40+3+17, "
                         "mixed or onelong")
    batch, length = map(int, match.groups())
    return [length] * batch


def is_mixed(lengths):
    return len(set(lengths)) > 1


def with_dense(cells):
    """The cells, and behind each the one of as many tokens that it is compared with."""
    wanted = [name for cell in cells for name in (cell, DENSE.get(cell)) if name]
    return list(dict.fromkeys(wanted))


def read_histogram(text):
    """[(shortest, longest, share)] of lines such as "49 64 17"; # begins a comment."""
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    try:
        found = [(int(low), int(high), int(share)) for low, high, share in filter(None, lines)]
    except ValueError as error:
        raise ValueError("a histogram has lines of three numbers: shortest, longest, share"
                         ) from error
    if not found or any(not 1 <= low <= high or share < 1 for low, high, share in found):
        raise ValueError("a histogram needs lines with 1 <= shortest <= longest and share >= 1")
    return found


def drawn_lengths(histogram, rows, seed=1):
    """Row lengths: a line by its share, a length in it alike. The same for the same seed."""
    generator = random.Random(seed)
    lines = generator.choices(histogram, [share for *_, share in histogram], k=rows)
    return [generator.randint(low, high) for low, high, _ in lines]


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


def faithful(accuracy, peer):
    """Does a peer compute this model? Its error against padded PyTorch's, both against FP64."""
    limit = MOST_PEER_ERROR * accuracy["pytorch"]["rms"] + SMALL_ERROR
    return accuracy[peer]["rms"] <= limit


def tflops(cell, subject):
    return cell["flops"] / cell[subject]["median_ms"] / 1e9


HEAD = ("model   cell      type   floor ms  PyTorch ms  compiled  unpadded  compiled       ORT "
        "ORT packed  Vernier ms   goal  PyTorch/V   best/V  V/floor  TFLOP/s PyTorch, Vernier  "
        "of ceiling")
MEASURED = ("pytorch", "compiled", "unpadded", "unpadded_compiled", "ort", "ort_packed")


def milliseconds(value, width):
    return f"{'-' if value is None else f'{value:.3f}':>{width}}"


def median(cell, subject):
    return (cell.get(subject) or {}).get("median_ms")


def row(cell, ceiling=None):
    """One line of the table. What was not measured is a dash."""
    ours, floor, peer = median(cell, "vernier"), cell.get("floor_ms"), median(cell, "pytorch")
    peers = {name: median(cell, name) for name in MEASURED}
    best = min((ms for ms in peers.values() if ms is not None), default=None)
    goal = GOALS_MS.get((cell["model"], cell["cell"])) if cell["type"] == "fp16" else None
    rate = ours and tflops(cell, "vernier")
    ratios = [f"{peer / ours:.2f}x" if ours and peer else "-",
              f"{best / ours:.2f}x" if ours and best else "-",
              f"{ours / floor:.2f}x" if ours and floor else "-",
              f"{tflops(cell, 'pytorch'):.1f}" if peer else "-", f"{rate:.1f}" if ours else "-",
              f"{100 * rate / ceiling:.0f} %" if ours and ceiling else "-"]
    times = " ".join(milliseconds(peers[name], width)
                     for name, width in zip(MEASURED, (11, 9, 9, 9, 9, 10)))
    return (f"{cell['model']:<7} {cell['cell']:<9} {cell['type']:<5} {milliseconds(floor, 9)} "
            f"{times} {milliseconds(ours, 11)} {'-' if goal is None else goal:>6} "
            f"{ratios[0]:>10} {ratios[1]:>8} {ratios[2]:>8} {ratios[3]:>16} {ratios[4]:>8} "
            f"{ratios[5]:>11}")


def dense_lines(cells):
    """Vernier's time in a cell of unlike rows, and in the one of as many tokens in rows alike."""
    times = {(cell["model"], cell["type"], cell["cell"]): median(cell, "vernier") for cell in cells}
    lines = []
    for (model, kind, name), ours in times.items():
        dense = DENSE.get(name)
        beside = times.get((model, kind, dense))
        if ours and beside:
            lines.append(f"{model} {kind}: {name} takes {ours / beside:.2f} of Vernier's time for "
                         f"{dense}, as many tokens in rows alike")
    return lines


def offline_lines(engine):
    """Rows per second of the subjects on a mix of lengths."""
    found = engine.get("offline")
    if not found or not found["rows_per_second"]:
        return []
    rates = ", ".join(f"{name} {report.quantile(values, 0.5):.0f}"
                      for name, values in found["rows_per_second"].items())
    return [f"{engine['model']} {engine['type']}: {found['lengths']}, {found['rows']} rows of "
            f"{found['tokens'] / found['rows']:.1f} tokens in batches of {found['batch']}, rows "
            f"per second: {rates}"]


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
        lines += [f"{name}: {title} is off by rms {accuracy[peer]['rms']:.1e}, max "
                  f"{accuracy[peer]['max_abs']:.1e}"
                  f"{'' if faithful(accuracy, peer) else '  NO PEER: IT COMPUTES SOMETHING ELSE'}; "
                  f"rows bitwise equal: {yes(accuracy[peer]['rows_equal'])}"
                  for peer, title in PEERS.items() if peer in accuracy]
    lines += [f"{name}: {PEERS[peer]}: not measured: {reason}"
              for peer, reason in engine.get("left_out", {}).items()]
    return lines + offline_lines(engine)


def verdict(result):
    """0, or 1 if something failed, answers are wrong (a peer's too), a row's bits depend on its
    batch or a build is not repeatable. Times decide nothing, nor does a peer that is not there."""
    engines = result["engines"]
    good = all(engine.get("build", {}).get("same_bytes", True) for engine in engines)
    good &= all(accurate(engine["accuracy"], engine["type"])
                and engine["accuracy"]["vernier"]["rows_equal"]
                and all(faithful(engine["accuracy"], peer) for peer in PEERS
                        if peer in engine["accuracy"])
                for engine in engines if "accuracy" in engine)
    return 0 if good and not result["failures"] else 1
