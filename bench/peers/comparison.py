"""One model in one type for bench/peers/gpu.py: Vernier's engine and its peers, built, compared
with the truth, and timed in turns. Needs torch, onnx and numpy; see docs/measuring.md "GPU".
"""
import contextlib
import filecmp
import random
import statistics
import sys
import time

import offline
import ort_peer
import report
import report_gpu
import torch_peer
import torch_unpadded
from engines import MODELS, make_inputs

COMPARED = {"rows": 64, "longest": 128}
BATCHES = (1, 4, COMPARED["rows"])  # whose rows must have the same bits
HOST_BOUND_TOKENS = 1024  # smaller cells wait until nothing else runs on the host


def first_rows(inputs, rows):
    return {name: array[:rows] for name, array in inputs.items()}


def compared_inputs(name, vocabulary):
    """Rows of random lengths. The first four are padded alike in every batch."""
    generator = random.Random(1)
    lengths = [generator.randint(1, COMPARED["longest"] - 1) for _ in range(COMPARED["rows"])]
    return make_inputs(name, vocabulary, lengths, COMPARED["longest"])


def rows_equal(answers):
    """`answers` by number of rows: has every row the same bits in all of them?"""
    largest = answers[max(answers)]
    return all(array.tobytes() == largest[:rows].tobytes() for rows, array in answers.items())


def first_equal(answers):
    """Has the first row the same bits alone as among four?"""
    return answers[1][0].tobytes() == answers[4][0].tobytes()


def vernier_summary(windows):
    """Like report.summary(), for windows whose medians are known."""
    medians = [window["median_ms"] for window in windows]
    return {"median_ms": statistics.median(medians), "window_medians_ms": medians,
            "drift": max(medians) / min(medians) - 1, "runs": sum(w["runs"] for w in windows),
            "host_median_ms": statistics.median(window["host_ms"] for window in windows)}


@contextlib.contextmanager
def watched(result, what):
    """Prints and records a failure inside, so that the rest is still measured."""
    try:
        yield
    except Exception as error:  # PyTorch's too, of any kind
        text = f"{what}: {type(error).__name__}: {error}"
        result["failures"].append(text)
        print(text, file=sys.stderr, flush=True)


class Comparison:
    """One model in one type: PyTorch's module, Vernier's engine, and the peers that can run."""

    def __init__(self, peer, name, kind, bench):
        self.peer, self.name, self.kind, self.bench = peer, name, kind, bench
        self.program, self.options, self.result = bench.program, bench.options, bench.result
        usual = MODELS[name].cells if kind == "fp16" else MODELS[name].others
        self.cells = report_gpu.with_dense(self.options.cells or usual)
        self.sizes = self.result["models"][name]
        self.entry = {"model": name, "type": kind, "left_out": {}}
        self.result["engines"].append(self.entry)
        self.peers, self.models = {}, None  # of ONNX Runtime

    def watched(self, what):
        return watched(self.result, f"{self.name} {self.kind} {what}")

    @contextlib.contextmanager
    def watched_peer(self, name):
        """Like watched(), but a failure of ONNX Runtime only skips its columns, which say why."""
        if name == "unpadded":
            with self.watched(name):
                yield
            return
        try:
            yield
        except Exception as error:  # of any kind
            self.entry["left_out"][name] = f"{type(error).__name__}: {error}"[:300]
            self.peers.pop(name, None)

    def make_peers(self):
        """All but PyTorch with padding. ONNX Runtime's models are written from now on, beside the
        second build and not beside the first, which is timed."""
        device, sizes = self.options.device, self.sizes
        if not ort_peer.reason(self.kind, device):
            self.models = ort_peer.Models(self.program.model(self.name), sizes["heads"],
                                          self.peer.sizes.hidden, self.kind)
        made = {"ort": ort_peer.Peer(self.models, "padded", device)}
        mixed = [cell for cell in self.cells if report_gpu.is_mixed(report_gpu.cell_lengths(cell))]
        if mixed or self.options.mix:
            made["unpadded"] = torch_unpadded.Peer(self.peer)
            made["ort_packed"] = ort_peer.Peer(self.models, "packed", device)
        for name, peer in made.items():
            reason = peer.reason(self.kind)
            if reason:
                self.entry["left_out"][name] = reason
            else:
                self.peers[name] = peer

    def build(self):
        """Builds the engine, and runs it once: the first result after a cold start."""
        build = self.entry["build"] = self.program.build(self.name, self.kind, self.cells)
        inputs = first_rows(compared_inputs(self.name, self.sizes["vocab"]), 1)
        start = time.perf_counter()
        self.program.answers(self.program.engine(self.name, self.kind), inputs)
        build["first_result_s"] = build["seconds"] + time.perf_counter() - start

    def build_again(self):
        """Builds from the tuning record and checks that the bytes are the same."""
        with self.watched("second build"):
            again = self.program.build(self.name, self.kind, self.cells, ".again")
            first = self.program.engine(self.name, self.kind)
            second = self.program.engine(self.name, self.kind, ".again")
            self.entry["build"]["again_s"] = again["seconds"]
            self.entry["build"]["same_bytes"] = filecmp.cmp(first, second, shallow=False)
            second.unlink()

    def errors(self, truth, answer):
        """{"max_abs", "worst", "rms", "rows_equal"} of `answer`, inputs → outputs."""
        inputs = compared_inputs(self.name, self.sizes["vocab"])
        answers = {rows: answer(first_rows(inputs, rows)) for rows in BATCHES}
        found = report_gpu.errors(answers[COMPARED["rows"]].ravel().tolist(),
                                  truth.ravel().tolist())
        return {**found, "rows_equal": rows_equal(answers), "first_equal": first_equal(answers)}

    def compare(self, truth):
        engine = self.program.engine(self.name, self.kind)
        found = {"rows": COMPARED["rows"],
                 "pytorch": self.errors(truth, lambda inputs: self.peer.answers(self.kind, inputs)),
                 "vernier": self.errors(truth, lambda inputs: self.program.answers(engine, inputs))}
        for name in list(self.peers):
            with self.watched_peer(name):
                peer = self.peers[name]
                found[name] = self.errors(truth, lambda inputs: peer.answers(self.kind, inputs))
        self.entry["accuracy"] = found

    def window(self, subject, inputs):
        if subject == "pytorch" or subject in self.peers:
            peer = self.peers.get(subject, self.peer)
            return peer.window(self.kind, inputs, self.options.timing)
        return self.program.window(self.program.engine(self.name, self.kind), inputs,
                                   self.options.timing)

    def measure(self, cell):
        """One cell in rounds: a window of each subject, forwards and backwards in turn."""
        lengths = report_gpu.cell_lengths(cell)
        inputs = make_inputs(self.name, self.sizes["vocab"], lengths)
        entry = {"model": self.name, "cell": cell, "type": self.kind, "rows": len(lengths),
                 "tokens": sum(lengths), "flops": report_gpu.flops(self.sizes, lengths)}
        self.result["cells"].append(entry)
        windows = {"pytorch": []}
        windows.update({name: [] for name in self.peers
                        if name == "ort" or report_gpu.is_mixed(lengths)})
        if "accuracy" in self.entry:  # else there is nothing that runs
            windows["vernier"] = []
        for turn in range(self.options.rounds):
            for subject in windows if turn % 2 == 0 else reversed(windows):
                if len(windows[subject]) < turn or subject in self.entry["left_out"]:
                    continue  # it failed before
                known = subject in self.peers
                with (self.watched_peer(subject) if known else self.watched(f"{cell} {subject}")):
                    windows[subject].append(self.window(subject, inputs))
        for subject, done in windows.items():
            if done:
                entry[subject] = (vernier_summary if subject == "vernier" else report.summary)(done)
        self.compare_cell(entry, inputs)
        with self.watched(f"{cell} floor"):
            products = torch_peer.Products(self.sizes, self.kind, lengths, self.options.device)
            entry["floor_ms"] = products.floor_ms(self.options.timing)
        for name in ("ort", "ort_packed"):
            if name in self.peers:
                self.peers[name].release()
        torch_peer.release(self.options.device)

    def compare_cell(self, entry, inputs):
        """Compares the answers of the peers' last timed runs with those of padded PyTorch."""
        timed = [name for name in self.peers if name in entry]
        with self.watched(f"{entry['cell']} answers"):
            want = self.peer.answers(self.kind, inputs).ravel().tolist() if timed else []
            for name in timed:
                self.compare_answer(entry, name, want)

    def compare_answer(self, entry, name, want, subject=None):
        """`subject`: the entry's name, where it is not the peer's."""
        unlike = report_gpu.errors(self.peers[name].answer.ravel().tolist(), want)["rms"]
        entry[subject or name]["unlike_padded_rms"] = unlike
        if not unlike <= report_gpu.MOST_UNLIKE:
            raise ValueError(f"the answers of {subject or name} are not those of padded PyTorch: "
                             f"they differ by rms {unlike:.1e}")

    def measure_compiled(self, entry):
        """torch.compile in a cell that was measured. It takes long, and so comes last. In a cell of
        mixed length what it compiles has no padding."""
        cell = entry["cell"]
        lengths = report_gpu.cell_lengths(cell)
        inputs = make_inputs(self.name, self.sizes["vocab"], lengths)
        with self.watched(f"{cell} torch.compile"):
            if ("unpadded" in self.peers and report_gpu.is_mixed(lengths)
                    and self.options.device != "cpu"):  # the check's attention is a loop
                entry["unpadded_compiled"] = self.peers["unpadded"].compiled(
                    self.kind, inputs, self.options.timing)
                self.compare_answer(entry, "unpadded",
                                    self.peer.answers(self.kind, inputs).ravel().tolist(),
                                    "unpadded_compiled")
            else:
                entry["compiled"] = self.peer.compiled(self.kind, inputs, self.options.timing)
        torch_peer.release(self.options.device)

    def measure_offline(self):
        if "accuracy" in self.entry and not self.is_late("lengths"):
            self.entry["offline"] = offline.measure(self.options.mix, self, self.peers)
            torch_peer.release(self.options.device)
            self.bench.write()

    def is_late(self, what):
        if time.monotonic() <= self.options.stop_at:
            return False
        self.result["failures"].append(f"{self.name} {self.kind} {what}: no time was left")
        return True

    def run(self, truth, background):
        """Measures everything. The second build runs while the larger cells are measured."""
        try:
            self.run_subjects(truth, background)
        finally:
            self.peers.clear()
            if self.models:
                self.models.remove()

    def run_subjects(self, truth, background):
        again = None
        with self.watched("build"):
            self.build()
            self.make_peers()
            if not self.options.build_once:
                again = background.submit(self.build_again)
            self.compare(truth)
        self.bench.write()
        for cell in self.cells:
            tokens = sum(report_gpu.cell_lengths(cell))
            if again and tokens < HOST_BOUND_TOKENS:
                again.result()
            if not self.is_late(cell):
                self.measure(cell)
                self.bench.write()
        if again:
            again.result()
        if self.options.mix:
            self.measure_offline()
        for entry in self.bench.cells_of(self.name, self.kind):
            if entry["cell"] in self.options.compile and not self.is_late("torch.compile"):
                self.measure_compiled(entry)
                self.bench.write()
