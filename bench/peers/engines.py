"""The models that bench/peers/gpu.py compares, and Vernier's engines of them: made, built, run and
timed by the vernier program. Needs numpy.
"""
import dataclasses
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

import numpy

import report_gpu
from modes import mode_options


@dataclasses.dataclass(frozen=True)
class Model:
    architecture: str  # of make-model
    cells: tuple       # measured by default in fp16: those with a goal, and rows of mixed length
    others: tuple      # in other types
    padding: int       # the id
    segments: bool     # has it token_type_ids?


# The small ones first: the large one is written meanwhile.
MODELS = {
    "minilm": Model("minilm-l6", ("b128s128", "mixed"), ("b128s128",), 0, True),
    "base": Model("bert-base", ("b128s128", "mixed", "b1s128"), ("b128s128", "b1s128"), 0, True),
    "large": Model("bge-reranker-large", ("b32s512", "mixed", "b32s128", "b1s128"),
                   ("b32s128", "b1s128"), 1, False),
}
BUILT_FOR = {"batch": 128, "seq": 512}  # at least
LIMIT_S = {"make-model": 120, "build": 180}  # of other commands:
SHORT_LIMIT_S = 30
ROOM_BYTES = 12 << 30  # of a large model and two engines
FIRST_ID = 5  # padding and special tokens come before


class Failure(Exception):
    """The program failed."""


def working_folder():
    """In memory where there is room: files of gigabytes are written and read."""
    shared = pathlib.Path("/dev/shm")
    roomy = shared.is_dir() and shutil.disk_usage(shared).free > ROOM_BYTES
    return tempfile.TemporaryDirectory(prefix="vernier-", dir=shared if roomy else None)


def make_inputs(name, vocabulary, lengths, longest=0):
    """Random ids, padded to the longest row, or further."""
    longest = max([longest, *lengths])
    generator = numpy.random.default_rng(len(lengths) * 1000 + longest)
    mask = numpy.arange(longest)[None] < numpy.array(lengths)[:, None]
    ids = generator.integers(FIRST_ID, vocabulary, mask.shape, dtype=numpy.int64)
    inputs = {"input_ids": numpy.where(mask, ids, MODELS[name].padding),
              "attention_mask": mask.astype(numpy.int64)}
    if MODELS[name].segments:
        inputs["token_type_ids"] = generator.integers(0, 2, mask.shape, dtype=numpy.int64)
    return inputs


class Program:
    """The vernier program on one device; its files lie in one folder."""

    def __init__(self, file, folder, device):
        self.file, self.folder, self.device = file, pathlib.Path(folder), device

    def call(self, *arguments):
        """Its JSON, or {} where it prints none."""
        command = [str(self.file), *map(str, arguments)]
        limit = LIMIT_S.get(arguments[0], SHORT_LIMIT_S)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False,
                                  timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{' '.join(command)}: took longer than {limit} s") from error
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def model(self, name):
        return self.folder / f"{name}.onnx"

    def engine(self, name, kind, suffix=""):
        return self.folder / f"{name}.{kind}{suffix}.vn"

    def make(self, name, sizes):
        """Writes the model; its sizes, and its file without the folder, which is one machine's.
        `sizes` instead of the architecture's own."""
        made = self.call("make-model", MODELS[name].architecture, "-o", self.model(name), "--json",
                         *(f"--{key}={size}" for key, size in sizes.items()))
        return {**made, "model": self.model(name).name}

    def build(self, name, kind, cells, suffix=""):
        """{"seconds", "fallback_steps", …}. The first build of a model and type writes its tuning
        record, the next reads it."""
        lengths = [report_gpu.cell_lengths(cell) for cell in cells]
        batch = max([BUILT_FOR["batch"], *map(len, lengths)])
        seq = max([BUILT_FOR["seq"], *map(max, lengths)])
        start = time.perf_counter()
        done = self.call("build", self.model(name), "-o", self.engine(name, kind, suffix),
                         "--device", self.device, *mode_options(kind), "--json",
                         "--shapes", f"batch=1..{batch},seq=1..{seq}",
                         "--tuning", self.folder / f"{name}.{kind}.tuning.json")
        seconds = time.perf_counter() - start
        keys = ("ms", "steps", "fallback_steps", "weight_bytes", "notes")
        return {"seconds": seconds, **{key: done[key] for key in keys}}

    def answers(self, engine, inputs):
        """The engine's one output, as f64."""
        source, target = self.folder / "run_in.npz", self.folder / "run_out.npz"
        numpy.savez(source, **inputs)
        self.call("run", engine, "--inputs", source, "--outputs", target)
        with numpy.load(target) as arrays:
            return arrays[arrays.files[0]].astype(numpy.float64)

    def window(self, engine, inputs, timing):
        """{"median_ms": of one run on the device, "host_ms": with the copies from and to the host,
        "runs"}"""
        source = self.folder / "cell.npz"
        numpy.savez(source, **inputs)
        done = self.call("bench", engine, "--inputs", source, "--json",
                         "--seconds", timing.seconds, "--pause", timing.pause_ms)
        alone = "median_ms" if self.device == "cpu" else "device_median_ms"
        return {"median_ms": done[alone], "host_ms": done["median_ms"], "runs": done["runs"]}

    def rows_per_second(self, engine, lengths, batch, timing):
        """Of rows of these lengths, `batch` at a time."""
        file = self.folder / "lengths.txt"
        file.write_text("".join(f"{length}\n" for length in lengths), encoding="utf-8")
        done = self.call("bench", engine, "--lengths", file, "--batch", batch, "--json",
                         "--seconds", timing.seconds, "--runs", 3)
        return done["rows_per_second"]
