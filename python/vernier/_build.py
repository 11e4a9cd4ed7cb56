"""build, calibrate, import_cache and extract: the files that a session runs, and those before."""
from __future__ import annotations

import json
import os
from typing import Any, Iterable, Literal, Mapping

from vernier import _native
from vernier._error import Error
from vernier._progress import Progress, Told
from vernier._reports import BuildReport, Calibration, Extraction
from vernier._spelling import in_python
from vernier._values import (Model, Path, Shapes, check_keeps, count, model_file, shapes_text,
                             size_text, text_of, texts)

Mode = Literal["model", "fp32", "tf32", "fp16", "bf16", "int8", "fp8", "w8", "w4"]
Method = Literal["output-error", "max", "percentile", "mse", "entropy"]


def build(model: Model, engine: Path, *, mode: Mode | None = None, rules: Iterable[str] = (),
          shapes: Shapes | None = None, layer_precisions: str | None = None,
          layer_output_types: str | None = None, policy: Path | Mapping[str, Any] | None = None,
          outputs: Iterable[str] = (), fuse_off: Iterable[str] = (),
          unpad: Literal["auto", "off", "zero-fill"] = "auto", device: str = "cpu",
          scales: Path | None = None, static_scales: bool = False,
          export_qdq: Path | None = None, int8_error: float = 4.0,
          compare: bool = False, force: bool = False, canary: bool = True,
          max_memory: int | str | None = None, max_seconds: float | None = None,
          progress: Progress = None) -> BuildReport:
    """Compiles an ONNX model into an engine file, as `vernier build` does, range audit included.

    model     a file, its bytes, or an onnx.ModelProto whose weights are inside it.
    mode      "model" (its own float types), "fp32", "tf32", "fp16", "bf16", "int8", "fp8", or of
              weights alone, for one row, "w8" or "w4"; None: the policy's, or the model's.
    rules     "SELECTOR SETTING", later ones win: "op:LayerNorm compute=f32".
    shapes    {"batch": (1, 32), "seq": (4, 512)}, or by input {"ids": [(1, 32), (4, 512)]}; a size
              may be one number, or (least, best, most). As text: "batch=1..32,seq=4..512". None:
              1..64 and 1..512.
    layer_precisions, layer_output_types
              trtexec's spelling of rules: "LayerNormalization_*:fp32".
    policy    a policy file, or what it holds; the above add to it.
    outputs   values of the graph that the engine also returns.
    fuse_off  optional passes to leave out, by name.
    unpad     "auto" computes only tokens where padding reaches no output; "zero-fill" makes outputs
              that have a place for each token 0 at padding, and computes only tokens for them, too;
              "off" computes padding.
    scales    of modes "int8" and "fp8": a scales file that calibrate() has written.
    static_scales
              with scales: quantized operands take the file's static ranges, not that of each row; less
              exact.
    export_qdq
              with static_scales, or mode "fp8": also write the model with its products of 8 bits
              as Q/DQ operators to this file, for other runtimes.
    int8_error
              of modes "int8", "fp8", "w8" and "w4": percent by which quantization may move an output, rms;
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
    progress  True shows the stage of the work on standard error; a function is called with each.

    Returns engine, model, onnx_nodes, steps, fallback_steps, weight_bytes, notes, policy (which
    `policy` takes back), comparison (of the mode with 16 bits; None: nothing was timed) and ms.
    Raises Error: a rule that matches nothing, a request that no kernel can honor, an operator that
    is not supported.
    """
    options = _native.CompileOptions()
    options.device = device
    options.mode = mode or ""
    options.rules = texts(rules)
    options.shapes = shapes_text(shapes)
    options.layer_precisions = layer_precisions or ""
    options.layer_output_types = layer_output_types or ""
    options.outputs = texts(outputs)
    if unpad not in ("auto", "off", "zero-fill"):
        raise Error(f"unpad: got {unpad!r}, expected 'auto', 'off' or 'zero-fill'", "input")
    options.fuse_off = texts(fuse_off) + (["unpad"] if unpad == "off" else [])
    options.zero_fill = unpad == "zero-fill"
    if isinstance(policy, Mapping):
        options.policy, options.policy_file = json.dumps(policy), "policy"
    elif policy is not None:
        options.policy, options.policy_file = text_of(policy), os.fspath(policy)
    if scales is not None:
        options.scales, options.scales_file = text_of(scales), os.fspath(scales)
        check_keeps(engine, scales)
    options.static_scales = static_scales
    options.canary = canary
    if export_qdq is not None:
        options.export_qdq = os.fspath(export_qdq)
        for read in (model, *([] if scales is None else [scales])):
            check_keeps(export_qdq, read)
    options.int8_error = int8_error / 100
    options.limit(size_text(max_memory), max_seconds or 0.0)
    check_keeps(engine, model)
    keep = "quantized" if force else "faster" if compare else ""
    with Told(progress) as tell, model_file(model) as path:
        options.progress(tell)
        made = _native.build(path, os.fspath(engine), options, keep)
    fields = made | {"policy": json.loads(made["policy"]),
                     "comparison": json.loads(made["comparison"]),
                     "notes": [in_python(note) for note in made["notes"]]}
    summary = (f"{fields['engine']}: {fields['steps']} steps for {fields['onnx_nodes']} ONNX nodes, "
               f"{fields['weight_bytes'] / 1e6:.1f} MB of weights, {fields['ms']:.0f} ms")
    return BuildReport(fields, "\n".join([summary, *(f"note: {n}" for n in fields["notes"])]))


def import_cache(model: Model, cache: Path, output: Path, *, max_memory: int | str | None = None,
                 max_seconds: float | None = None) -> Calibration:
    """Writes the scales file `output` from a calibration cache that TensorRT has made of this model,
    as `vernier calibrate --import-cache` does: static ranges, and factors of 1.

    max_memory, max_seconds  as of build.

    Returns version and algorithm (of TensorRT), found and missing (operands of int8 products with
    and without a range), unknown (tensors that the model does not have) and ms.
    """
    check_keeps(output, model, cache)
    with model_file(model) as path:
        fields, text = _native.import_cache(path, os.fspath(cache), os.fspath(output),
                                            size_text(max_memory), max_seconds or 0.0)
    return Calibration(json.loads(fields), text)


def calibrate(model: Model, data: Path | Iterable[Path], output: Path, *,
              method: Method = "output-error", shapes: Shapes | None = None, threads: int = 0,
              max_memory: int | str | None = None, max_seconds: float | None = None,
              progress: Progress = None) -> Calibration:
    """Finds scales for the int8 products of a model and writes them to the JSON file `output`, which
    build() takes as `scales`, as `vernier calibrate` does.

    data      an .npz file with arrays named as the model's inputs, a folder of them, or several.
    method    of static ranges: "output-error", "max", "percentile", "mse" or "entropy".
    shapes    as of build: sizes that the batches may have. threads: of the runs in FP32.
    max_memory, max_seconds, progress  as of build.

    Returns files, batches, tokens, sites (operands of products, with their errors), notes and ms.
    A call that was ended (Ctrl-C, a limit) goes on when it is repeated.
    """
    paths = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    check_keeps(output, model, *paths)
    count(threads, "threads", "CPUs")
    with Told(progress) as tell, model_file(model) as file:
        fields, text = _native.calibrate(
            file, [os.fspath(path) for path in paths], os.fspath(output), method,
            shapes_text(shapes), threads, size_text(max_memory), max_seconds or 0.0, tell)
    found = json.loads(fields)
    return Calibration(found | {"notes": [in_python(note) for note in found["notes"]]}, text)


def export_onnx(model: Model, to: Path) -> None:
    """Writes what Vernier makes of a model before it decides types, the raised graph, to the file
    `to` as a standard ONNX model of opset 21, as `vernier inspect --export-onnx` does. It answers as
    the model does, but for rounding.
    """
    check_keeps(to, model)
    with model_file(model) as path:
        _native.export_onnx(path, os.fspath(to))


def extract(model: Model, part: Path, *, begin: str | Iterable[str] = (),
            end: str | Iterable[str] = (), max_memory: int | str | None = None,
            max_seconds: float | None = None, progress: Progress = None) -> Extraction:
    """Writes a part of an ONNX model to the file `part`, as a model of its own, as `vernier extract`
    does.

    begin     where the part begins: names of values, which become its inputs, or of its first
              nodes; none: the model's inputs.
    end       where it ends: values, which become its outputs, or its last nodes; none: the
              model's outputs.
    max_memory, max_seconds, progress  as of build.

    Returns inputs and outputs of the part, onnx_nodes and model_nodes, weight_bytes, notes, and
    imports: whether Vernier can read the part; if not, why_not.
    """
    check_keeps(part, model)
    with Told(progress) as tell, model_file(model) as path:
        fields, text = _native.extract(path, os.fspath(part), texts(begin), texts(end),
                                       size_text(max_memory), max_seconds or 0.0, tell)
    found = json.loads(fields)
    return Extraction(found | {"notes": [in_python(note) for note in found["notes"]],
                               "why_not": in_python(found["why_not"])}, text)
