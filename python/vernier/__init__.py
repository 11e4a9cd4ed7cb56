"""Vernier: compiles Transformer models from ONNX into engines and proves their precision.

    report = vernier.build("model.onnx", "model.vn", mode="bf16", shapes="batch=1..8,seq=4..128")
    session = vernier.Session(vernier.Engine("model.vn"))
    outputs = session.run({"input_ids": ids, "attention_mask": mask})
    verdict = vernier.verify("model.vn", "model.onnx")["verdict"]

The words, rules and limits are those of the command line (docs/commands.md, docs/precision.md,
docs/verification.md). Every failure is a vernier.Error with a `code`. build, run and verify release
the interpreter's lock.
"""
from __future__ import annotations

import json
import os
import warnings
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from vernier import _native
from vernier._arrays import from_native, numpy_name, to_native
from vernier._error import Error
from vernier._spelling import in_python

__all__ = ["Engine", "Error", "Port", "Session", "build", "calibrate", "import_cache", "inspect",
           "verify"]
__version__ = _native.version
Error.__module__ = "vernier"

Path = str | os.PathLike[str]
Arrays = Mapping[str, Any]


class Port(NamedTuple):
    """One input or output of an engine."""

    name: str
    dtype: str  #: NumPy's name, "float32"; "bfloat16" and "float8_…" are ml_dtypes'
    shape: tuple[int | str, ...]  #: a number, or an expression over named sizes: "batch"
    ranges: tuple[tuple[int, int], ...]  #: minimum and maximum of each size


class Engine:
    """A compiled model, opened from a `.vn` file. Immutable: share it between threads.

    The file is mapped: replace it by renaming another over it, as `build` does. Where others may
    write to it in place, `read_into_memory` makes that harmless; it takes the file's size in memory.
    """

    def __init__(self, path: Path, *, read_into_memory: bool = False) -> None:
        self._native = _native.Engine(os.fspath(path), read_into_memory)
        self._types = {name: dtype for name, dtype, _ in self._native.inputs()}

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(_port(*row) for row in self._native.inputs())

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(_port(*row) for row in self._native.outputs())

    @property
    def device(self) -> str:
        return self._native.device()

    @property
    def content_hash(self) -> str:
        """Hash of everything in the file but its certificate, in hex."""
        return self._native.content_hash()

    @property
    def weight_bytes(self) -> int:
        return self._native.weight_bytes()

    @property
    def verdict(self) -> str | None:
        """What the engine's certificate says ("pass", "precision", …); None: it has none."""
        return self._native.verdict()

    def check_weights(self) -> None:
        """Reads all weights and compares their checksums; raises Error where one is wrong."""
        self._native.check_weights()

    def check_unchanged(self) -> None:
        """Raises Error where the mapped file was written to since it was opened; cheap."""
        self._native.check_unchanged()

    def __repr__(self) -> str:
        ports = [", ".join(f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}]" for p in ports)
                 for ports in (self.inputs, self.outputs)]
        return f"<vernier.Engine ({ports[0]}) -> ({ports[1]})>"


class Session:
    """One execution context of an engine, for one thread at a time: run() while another thread is in
    it is an error. Sessions share the engine's weights and the process's threads (docs/serving.md).

    threads     CPUs that a run may use at most; 0 is all that the process may. Results do not
                depend on it.
    max_memory  what a run may take, as bytes or "4GB": a shape that needs more is an Error before
                anything is allocated. max_seconds: of each run, asked between its steps.
    require_certificate
                only what was verified is run, as by `vernier run --require-certificate`: an Error
                of code "check_failed" says what is outside. Here: the engine, its verdict, this
                machine and program; in run(): sizes, and outputs that hold NaN or infinity.
    accept_own_tolerance, accept_declared
                with require_certificate: also limits that were the user's own, and errors that
                kernels declare above the cap.
    canary      first the inputs that the build recorded are run: an Error of code "check_failed"
                where the engine answers with other bits than it did then, which says what has
                changed since.
    """

    def __init__(self, engine: Engine, threads: int = 0, *, max_memory: int | str | None = None,
                 max_seconds: float | None = None, require_certificate: bool = False,
                 accept_own_tolerance: bool = False, accept_declared: bool = False,
                 canary: bool = False) -> None:
        self.engine = engine
        self._certified = require_certificate
        if (accept_own_tolerance or accept_declared) and not require_certificate:
            raise Error("accept_own_tolerance and accept_declared say which certificates "
                        "require_certificate takes; add it, or leave them out", "input")
        terms = _native.CertificateTerms() if require_certificate else None
        if terms is not None:
            terms.own_tolerance, terms.declared = accept_own_tolerance, accept_declared
        self._native = _native.Session(engine._native, threads, _size(max_memory),
                                       max_seconds or 0.0, terms, canary)

    def run(self, inputs: Arrays, *, check: bool = False) -> dict[str, np.ndarray]:
        """Runs the engine on arrays named as its inputs; returns new arrays by output name.

        Arrays that are not dense, or of the other byte order, are copied first. Types are not
        converted: a float64 array for a float32 input is an Error, as are wrong names and shapes.
        bfloat16 arrays are ml_dtypes'; a uint16 array is taken as the bits of one, and where
        ml_dtypes is not installed, outputs are such bits too.

        NaN or infinity in an output is a RuntimeWarning that names the node where it begins, with
        `check` an Error of code "check_failed". Float outputs are read once for that (about as
        long as copying them takes); only where one is not finite are the inputs run once more,
        step by step.
        """
        rows, non_finite = self._native.run(to_native(inputs, self.engine._types))
        non_finite = in_python(non_finite)
        if non_finite and (check or self._certified):
            raise Error(non_finite, "check_failed")
        if non_finite:
            warnings.warn(non_finite, RuntimeWarning, stacklevel=2)
        return from_native(rows)


def build(model: Path, engine: Path, *, mode: str | None = None, rules: Iterable[str] = (),
          shapes: str | None = None, layer_precisions: str | None = None,
          layer_output_types: str | None = None, policy: Path | Mapping[str, Any] | None = None,
          outputs: Iterable[str] = (), fuse_off: Iterable[str] = (), device: str = "cpu",
          scales: Path | None = None, static_scales: bool = False,
          export_qdq: Path | None = None, int8_error: float = 4.0,
          compare: bool = False, force: bool = False, canary: bool = True,
          max_memory: int | str | None = None,
          max_seconds: float | None = None) -> dict[str, Any]:
    """Compiles an ONNX model into an engine file, as `vernier build` does, range audit included.

    mode      "model" (its own float types), "fp32", "tf32", "fp16", "bf16", "int8", or of weights
              alone, for one row, "w8" or "w4"; None: the policy's, or the model's.
    rules     "SELECTOR SETTING", later ones win: "op:LayerNorm compute=f32".
    shapes    "batch=1..32,seq=4..512" or "ids=1..32x4..512"; None: 1..64 and 1..512.
    layer_precisions, layer_output_types
              trtexec's spelling of rules: "LayerNormalization_*:fp32".
    policy    a policy file, or what it holds; the above add to it.
    outputs   values of the graph that the engine also returns.
    fuse_off  optional passes to leave out, by name.
    scales    of mode "int8": a scales file that calibrate() has written.
    static_scales
              with scales: int8 operands take the file's static ranges, not that of each row; less
              exact.
    export_qdq
              with static_scales: also write the model with its int8 products as Q/DQ operators to
              this file, for other runtimes.
    int8_error
              of modes "int8", "w8" and "w4": percent by which quantization may move an output, rms;
              the products that cost most are kept in 16 bits, of "w4" in w8, until it holds. From
              100 on nothing is measured.
    compare   of these modes: time the engine beside one in 16 bits on this machine, and keep the
              faster one; without it nothing is timed. force: keep the mode even where it is slower.
    canary    run the engine on a few seeded inputs and record the hashes of its answers, for
              Session(canary=True).
    max_memory, max_seconds
              for untrusted models: "8GB" or bytes, estimated before it is taken; seconds, asked
              between steps. What is over them is an Error with the code "machine". Ctrl-C ends the
              work between steps, too.

    Returns engine, model, onnx_nodes, steps, fallback_steps, weight_bytes, notes, policy (which
    `policy` takes back), comparison (of the mode with 16 bits; None: nothing was timed) and ms.
    Raises Error: a rule that matches nothing, a request that no kernel can honor, an operator that
    is not supported.
    """
    options = _native.CompileOptions()
    options.device = device
    options.mode = mode or ""
    options.rules = _texts(rules)
    options.shapes = shapes or ""
    options.layer_precisions = layer_precisions or ""
    options.layer_output_types = layer_output_types or ""
    options.outputs = _texts(outputs)
    options.fuse_off = _texts(fuse_off)
    if isinstance(policy, Mapping):
        options.policy, options.policy_file = json.dumps(policy), "policy"
    elif policy is not None:
        options.policy, options.policy_file = _text_of(policy), os.fspath(policy)
    if scales is not None:
        options.scales, options.scales_file = _text_of(scales), os.fspath(scales)
        _check_keeps(engine, scales)
    options.static_scales = static_scales
    options.canary = canary
    if export_qdq is not None:
        options.export_qdq = os.fspath(export_qdq)
        for read in (model, *([] if scales is None else [scales])):
            _check_keeps(export_qdq, read)
    options.int8_error = int8_error / 100
    options.limit(_size(max_memory), max_seconds or 0.0)
    _check_keeps(engine, model)
    keep = "quantized" if force else "faster" if compare else ""
    report = _native.build(os.fspath(model), os.fspath(engine), options, keep)
    return report | {"policy": json.loads(report["policy"]),
                     "comparison": json.loads(report["comparison"]),
                     "notes": [in_python(note) for note in report["notes"]]}


def import_cache(model: Path, cache: Path, output: Path, *, max_memory: int | str | None = None,
                 max_seconds: float | None = None) -> dict[str, Any]:
    """Writes the scales file `output` from a calibration cache that TensorRT has made of this model,
    as `vernier calibrate --import-cache` does: static ranges, and factors of 1.

    max_memory, max_seconds  as of build.

    Returns version and algorithm (of TensorRT), found and missing (operands of int8 products with
    and without a range), unknown (tensors that the model does not have) and ms.
    """
    _check_keeps(output, model, cache)
    return json.loads(_native.import_cache(os.fspath(model), os.fspath(cache), os.fspath(output),
                                           _size(max_memory), max_seconds or 0.0))


def calibrate(model: Path, data: Path | Iterable[Path], output: Path, *,
              method: str = "output-error", shapes: str | None = None, threads: int = 0,
              max_memory: int | str | None = None,
              max_seconds: float | None = None) -> dict[str, Any]:
    """Finds scales for the int8 products of a model and writes them to the JSON file `output`, which
    build() takes as `scales`, as `vernier calibrate` does.

    data      an .npz file with arrays named as the model's inputs, a folder of them, or several.
    method    of static ranges: "output-error", "max", "percentile", "mse" or "entropy".
    shapes    as of build: sizes that the batches may have. threads: of the runs in FP32.
    max_memory, max_seconds  as of build.

    Returns files, batches, tokens, sites (operands of products, with their errors), notes and ms.
    A call that was ended (Ctrl-C, a limit) goes on when it is repeated.
    """
    paths = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    _check_keeps(output, model, *paths)
    found = json.loads(_native.calibrate(
        os.fspath(model), [os.fspath(path) for path in paths], os.fspath(output), method,
        shapes or "", threads, _size(max_memory), max_seconds or 0.0))
    return found | {"notes": [in_python(note) for note in found["notes"]]}


def verify(engine: Path, model: Path, inputs: Arrays | Sequence[Arrays] | None = None, *,
           expect: Arrays | None = None, batches: Iterable[int] = (), lengths: Iterable[int] = (),
           tolerance: str | None = None, accept_declared: bool = False, thorough: bool = False,
           begin: Iterable[str] = (),
           end: Iterable[str] = (), batch_axis: str | None = None, seed: int = 1, threads: int = 0,
           report: Path | None = None, stamp: bool = False, read_into_memory: bool = False,
           max_memory: int | str | None = None,
           max_seconds: float | None = None) -> dict[str, Any]:
    """Compares a saved engine with the FP64 evaluation of its model, as `vernier verify` does.

    inputs    arrays named as the model's inputs, or several such; None: a sweep of seeded inputs
              that fit the model, over `batches` [1, 2, 4, 8] and `lengths` [4, 16, 48].
    expect    outputs of the first `inputs`: the FP64 evaluation is compared with them.
    tolerance limits instead of the usual ones: "rms=1e-3,max=1e-2,cos=0.9999,flips=0".
    accept_declared
              take kernels' word for errors that they declare above the cap.
    thorough  a larger sweep. begin, end: only the part between these values of the model.
    report    also write the report to this HTML file.
    stamp     write the verdict into the engine file, whatever it is; with tolerance, the
              certificate says that the limits are your own.
    read_into_memory  as of Engine. max_memory, max_seconds: as of build.

    Returns the report: "verdict" ("pass", or what was found), "explanation", "outputs", "cells", ….
    A verdict that is not "pass" is a result, not an Error.
    """
    request = _native.VerifyRequest(os.fspath(engine), os.fspath(model))
    given = [inputs] if isinstance(inputs, Mapping) else list(inputs or ())
    types = Engine(engine)._types if given else {}
    for number, arrays in enumerate(given):
        request.add_inputs(f"inputs {number}", to_native(arrays, types))
    if expect is not None and not given:
        raise Error("expect holds the outputs of inputs, which is missing; add inputs", "input")
    if expect is not None:
        request.expect(to_native(expect, {}))
    request.batches, request.lengths = list(batches), list(lengths)
    request.begin, request.end = _texts(begin), _texts(end)
    request.batch_axis, request.seed, request.threads = batch_axis or "", seed, threads
    request.read_into_memory = read_into_memory
    request.accept_declared = accept_declared
    request.limit(_size(max_memory), max_seconds or 0.0)
    if thorough:
        request.thorough()
    if report is not None:
        _check_keeps(report, engine, model)
        request.html(os.fspath(report))
    found = json.loads(_native.verify(request, tolerance or "", stamp))
    cause = found["cause"] | {"reason": in_python(found["cause"]["reason"])}
    return found | {"explanation": in_python(found["explanation"]), "cause": cause,
                    "notes": [in_python(note) for note in found["notes"]]}


def inspect(path: Path, view: str = "summary", *, node: str = "", shapes: str = "",
            threads: int = 0) -> dict[str, Any]:
    """What is in a model or an engine, as `vernier inspect --json` prints it.

    view      of a model: "summary", "graph", "raised" or "raised-graph"; of an engine: "summary",
              "plan", "memory", "timing" or "ledger".
    node      "ledger": only the rows of this ONNX node.
    shapes    "memory", "timing": sizes, "batch=4,seq=128". threads: "timing".
    """
    return json.loads(_native.inspect(os.fspath(path), view, node, shapes, threads))


def _port(name: str, dtype: str, dims: list[tuple[str, int, int]]) -> Port:
    shape = tuple(low if low == high else text for text, low, high in dims)
    return Port(name, numpy_name(dtype), shape, tuple((low, high) for _, low, high in dims))


def _size(size: int | str | None) -> str:
    """A number of bytes as the library reads it; "": no limit."""
    return "" if size is None else str(size)


def _texts(texts: Iterable[str]) -> list[str]:
    """A list of texts; one text alone is a list of one, not of its letters."""
    return [texts] if isinstance(texts, str) else list(texts)


def _text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"cannot read '{os.fspath(path)}': {error}", "input") from error


def _check_keeps(output: Path, *inputs: Path) -> None:
    """Raises Error where writing `output` would destroy one of the files that are read."""
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise Error(f"writing '{os.fspath(output)}' would destroy '{os.fspath(path)}', which "
                        "is read; give another name", "input")
