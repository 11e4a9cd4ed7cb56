"""verify, and what goes on from its verdict: judge, localise, bisect, reduce; and inspect."""
from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Iterable, Literal, Mapping, Sequence

from vernier import _native
from vernier._arrays import to_native
from vernier._engine import Engine
from vernier._error import Error
from vernier._progress import Progress, Told
from vernier._reports import (Bisection, Inspection, Judgement, Localisation, Reduction,
                              VerifyReport)
from vernier._spelling import in_python
from vernier._values import (Arrays, Model, Path, check_keeps, count, model_file, size_text, texts)

#: An engine, or the path of its file.
EngineFile = Engine | Path
Inputs = Arrays | Sequence[Arrays] | None
Metric = Literal["accuracy", "spearman", "mrr", "ndcg", "cosine"]
View = Literal["summary", "graph", "raised", "raised-graph", "plan", "memory", "timing", "ledger"]


def verify(engine: EngineFile, model: Model, inputs: Inputs = None, *,
           expect: Arrays | None = None, batches: Iterable[int] = (), lengths: Iterable[int] = (),
           tolerance: str | None = None, accept_declared: bool = False, thorough: bool = False,
           quick: bool = False, budget: float | None = None, begin: Iterable[str] = (),
           end: Iterable[str] = (), batch_axis: str | None = None, seed: int = 1, threads: int = 0,
           against: EngineFile | None = None, also: Literal["onnxruntime"] | None = None,
           also_python: Path | None = None, evaluate_on: Literal["cpu", "cuda"] | None = None,
           metric: Metric | None = None, labels: Arrays | None = None,
           metric_output: str | None = None,
           report: Path | None = None, stamp: bool = False, checkpoint: Path | None = None,
           resume: bool = False, read_into_memory: bool = False,
           max_memory: int | str | None = None, max_seconds: float | None = None,
           progress: Progress = None) -> VerifyReport:
    """Compares a saved engine with the FP64 evaluation of its model, as `vernier verify` does.

    inputs    arrays named as the model's inputs, or several such; None: a sweep of seeded inputs
              that fit the model, over `batches` [1, 2, 4, 8] and `lengths` [4, 16, 48].
    expect    outputs of the first `inputs`: the FP64 evaluation is compared with them.
    tolerance limits instead of the usual ones: "rms=1e-3,max=1e-2,cos=0.9999,flips=0".
    accept_declared
              take kernels' word for errors that they declare above the cap.
    thorough, quick
              a larger sweep, or a smaller one. budget: as many cells beyond the grid as fit into
              about so many seconds.
    begin, end
              only the part between these values of the model.
    against   another engine of the model, whose answers are compared with this one's too.
    also      "onnxruntime" runs the model on the same inputs: whose answers are nearer to FP64 is in
              the report; it decides no verdict. also_python: the Python that has it; None: this
              one. It is a process of its own.
    metric    a number of your task over all inputs, of the engine and of FP64, in the report's
              "task"; labels: {"labels": …}, and "groups" for "mrr" and "ndcg", by row of the inputs
              (docs/verification.md); metric_output: the output that is scored, None: the only one
              of floats. tolerance "metric=0.002": the verdict fails where it loses more.
    evaluate_on
              where large FP64 products are computed; None: on the engine's device.
    report    also write the report to this HTML file.
    stamp     write the verdict into the engine file, whatever it is; with tolerance, the
              certificate says that the limits are your own.
    checkpoint, resume
              a file (.npz) that keeps what is done, from time to time and when the call is stopped
              (Ctrl-C, max_seconds), and is removed at the end; with resume an equal call goes on
              from it. resume without a file: ENGINE.vn.checkpoint.npz, as the program has it.
    read_into_memory  as of Engine. max_memory, max_seconds, progress: as of build.

    Returns the report: "verdict" ("pass", or what was found), "explanation", "outputs", "cells", ….
    A verdict that is not "pass" is a result, not an Error.
    """
    if thorough and quick:
        raise Error("thorough and quick are two sizes of the sweep; give one of them", "input")
    with Told(progress) as tell, model_file(model) as path:
        request = _request(engine, path, inputs, expect)
        request.batches, request.lengths = list(batches), list(lengths)
        request.begin, request.end = texts(begin), texts(end)
        request.batch_axis, request.seed = batch_axis or "", seed
        request.threads = count(threads, "threads", "CPUs")
        request.read_into_memory = read_into_memory
        request.accept_declared = accept_declared
        request.evaluate_on = evaluate_on or ""
        request.also = _implementation(also)
        request.also_python = os.fspath(also_python or sys.executable or "")
        if metric is not None:
            request.task(metric, to_native(labels or {}, {}), metric_output or "")
        elif labels is not None or metric_output is not None:
            raise Error("labels and metric_output belong to a metric, which is missing", "input")
        request.budget_seconds = _positive(budget, "budget")
        request.limit(size_text(max_memory), max_seconds or 0.0)
        if thorough:
            request.thorough()
        if quick:
            request.quick()
        if against is not None:
            request.against(_path_of(against))
        if report is not None:
            check_keeps(report, _path_of(engine), model)
            request.html(os.fspath(report))
        if checkpoint is None and resume:
            checkpoint = f"{_path_of(engine)}.checkpoint.npz"
        if checkpoint is not None:
            check_keeps(checkpoint, _path_of(engine), model)
            request.checkpoint(os.fspath(checkpoint), resume)
        request.progress(tell)
        fields, text = _native.verify(request, tolerance or "", stamp)
    found = json.loads(fields)
    cause = found["cause"] | {"reason": in_python(found["cause"]["reason"])}
    return VerifyReport(found | {"explanation": in_python(found["explanation"]), "cause": cause,
                                 "notes": [in_python(note) for note in found["notes"]]}, text)


def judge(report: Mapping[str, Any] | Path, tolerance: str) -> Judgement:
    """Judges a report of verify() by other limits, as `vernier verify --from-report` does; nothing
    is run. A verdict that no tolerance changes stays.

    report    what verify() returned, or a file of its JSON.
    """
    if isinstance(report, Mapping):
        text = json.dumps(report)
    else:
        with open(report, encoding="utf-8") as file:
            text = file.read()
    fields, shown = _native.judge_stored(text, tolerance)
    return Judgement(json.loads(fields), shown)


def localise(engine: EngineFile, model: Model, inputs: Arrays | None = None, *,
             batches: Iterable[int] = (), lengths: Iterable[int] = (), seed: int = 1,
             threads: int = 0, max_memory: int | str | None = None,
             max_seconds: float | None = None, progress: Progress = None) -> Localisation:
    """What error each step of one run adds, carries on, and contributes to the outputs, as `vernier
    localise` does (docs/diagnosis.md). The arguments are those of verify()."""
    with Told(progress) as tell, model_file(model) as path:
        request = _diagnosis(engine, path, inputs, batches, lengths, seed, threads)
        request.limit(size_text(max_memory), max_seconds or 0.0)
        request.progress(tell)
        fields, text = _native.localise(request)
    return Localisation(json.loads(fields), text)


def bisect(engine: EngineFile, model: Model, inputs: Arrays | None = None, *,
           batches: Iterable[int] = (), lengths: Iterable[int] = (), tolerance: str | None = None,
           seed: int = 1, threads: int = 0, max_memory: int | str | None = None,
           max_seconds: float | None = None, progress: Progress = None) -> Bisection:
    """Finds a smallest set of ONNX nodes that must be raised to f32 for the engine to pass, as
    `vernier bisect` does; `.rules` raises them. The arguments are those of verify()."""
    with Told(progress) as tell, model_file(model) as path:
        request = _diagnosis(engine, path, inputs, batches, lengths, seed, threads)
        request.limit(size_text(max_memory), max_seconds or 0.0)
        request.progress(tell)
        fields, text = _native.bisect(request, tolerance or "")
    return Bisection(json.loads(fields), text)


def reduce(engine: EngineFile, model: Model, folder: Path, inputs: Arrays | None = None, *,
           batches: Iterable[int] = (), lengths: Iterable[int] = (), tolerance: str | None = None,
           seed: int = 1, threads: int = 0, max_memory: int | str | None = None,
           max_seconds: float | None = None, progress: Progress = None) -> Reduction:
    """Writes the smallest part of the model that still fails into `folder`, as a model, arrays and
    one command, as `vernier reduce` does. The other arguments are those of verify()."""
    with Told(progress) as tell, model_file(model) as path:
        request = _diagnosis(engine, path, inputs, batches, lengths, seed, threads)
        request.limit(size_text(max_memory), max_seconds or 0.0)
        request.progress(tell)
        fields, text = _native.reduce(request, tolerance or "", os.fspath(folder))
    return Reduction(json.loads(fields), text)


def inspect(path: Path, view: View = "summary", *, node: str = "", shapes: str = "",
            threads: int = 0) -> Inspection:
    """What is in a model or an engine, as `vernier inspect --json` prints it.

    view      of a model: "summary", "graph", "raised" or "raised-graph"; of an engine: "summary",
              "plan", "memory", "timing" or "ledger".
    node      "ledger": only the rows of this ONNX node.
    shapes    "memory", "timing": sizes, "batch=4,seq=128". threads: "timing".
    """
    count(threads, "threads", "CPUs")
    shown = functools.partial(_native.inspect, os.fspath(path), view, node, shapes, threads)
    return Inspection(json.loads(shown(False)), functools.partial(shown, True))


def _path_of(engine: EngineFile) -> str:
    return engine.path if isinstance(engine, Engine) else os.fspath(engine)


def _request(engine: EngineFile, model: str, inputs: Inputs,
             expect: Arrays | None) -> _native.VerifyRequest:
    request = _native.VerifyRequest(_path_of(engine), model)
    given = [inputs] if isinstance(inputs, Mapping) else list(inputs or ())
    if expect is not None and not given:
        raise Error("expect holds the outputs of inputs, which is missing; add inputs", "input")
    opened = engine if isinstance(engine, Engine) or not given else Engine(engine)
    types = opened._types if isinstance(opened, Engine) else {}
    for number, arrays in enumerate(given):
        request.add_inputs(f"inputs {number}", to_native(arrays, types))
    if expect is not None:
        request.expect(to_native(expect, {}))
    return request


def _diagnosis(engine: EngineFile, model: str, inputs: Arrays | None, batches: Iterable[int],
               lengths: Iterable[int], seed: int, threads: int) -> _native.VerifyRequest:
    request = _request(engine, model, inputs, None)
    request.batches, request.lengths, request.seed = list(batches), list(lengths), seed
    request.threads = count(threads, "threads", "CPUs")
    return request


def _implementation(also: str | None) -> str:
    if also not in (None, "onnxruntime"):
        raise Error(f"also: got {also!r}, expected 'onnxruntime'", "input")
    return also or ""


def _positive(seconds: float | None, name: str) -> float:
    if seconds is None:
        return 0.0
    if not seconds > 0:
        raise Error(f"{name}: got {seconds}, expected a positive number of seconds", "input")
    return float(seconds)
