"""Rows per second on a mix of lengths, batch after batch, as offline benchmarks count them:
Vernier, unpadded PyTorch, and ONNX Runtime in packing mode. See docs/measuring.md "GPU".

Vernier's passes are those of `vernier bench --lengths`: padded arrays in host memory, their copies
included. Peers have their arrays on the device, unpadded PyTorch packed ones, and copy nothing.
"""
import pathlib
import statistics
import time

import report_gpu
from engines import make_inputs

HERE = pathlib.Path(__file__).resolve().parent
ROWS, BATCH = 2048, 128
CHECK_ROWS, CHECK_BATCH = 24, 8
SUBJECTS = ("unpadded", "ort_packed")  # and Vernier
LEAST_PASSES = 3


def histogram_of(name):
    """Of "squad", or of a file of the same form."""
    file = HERE / "squad.txt" if name == "squad" else pathlib.Path(name)
    return report_gpu.read_histogram(file.read_text(encoding="utf-8"))


class Mix:
    """Drawn rows in batches."""

    def __init__(self, name, histogram, rows, batch):
        self.name, self.batch = pathlib.Path(name).name, batch
        self.lengths = report_gpu.drawn_lengths(histogram, rows)

    def batches(self, model, vocabulary):
        return [make_inputs(model, vocabulary, self.lengths[first:first + self.batch])
                for first in range(0, len(self.lengths), self.batch)]


def pass_seconds(run, seconds):
    """The median time of a pass, after one to warm up."""
    run()
    times, start = [], time.perf_counter()
    while len(times) < LEAST_PASSES or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def measure(mix, comparison, peers):
    """The entry "offline". `peers` by name; those that fail are left out with their reason."""
    rates = {"vernier": [], **{name: [] for name in SUBJECTS if name in peers}}
    found = {"lengths": mix.name, "rows": len(mix.lengths), "tokens": sum(mix.lengths),
             "batch": mix.batch, "rows_per_second": rates}
    batches = mix.batches(comparison.name, comparison.sizes["vocab"])
    engine = comparison.program.engine(comparison.name, comparison.kind)
    runs = {}
    for name in [name for name in rates if name != "vernier"]:
        with comparison.watched_peer(name):
            runs[name] = peers[name].pass_over(comparison.kind, batches)
    for turn in range(comparison.options.rounds):
        for name in list(rates) if turn % 2 == 0 else reversed(list(rates)):
            if len(rates[name]) < turn:
                continue  # it failed before
            if name == "vernier":
                with comparison.watched("lengths"):
                    rates[name].append(comparison.program.rows_per_second(
                        engine, mix.lengths, mix.batch, comparison.options.timing))
            elif name in runs:
                with comparison.watched_peer(name):
                    seconds = pass_seconds(runs[name], comparison.options.timing.seconds)
                    rates[name].append(len(mix.lengths) / seconds)
    found["rows_per_second"] = {name: values for name, values in rates.items() if values}
    return found
