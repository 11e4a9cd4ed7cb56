"""from_torch: a module of PyTorch becomes an engine in one call. PyTorch is imported when it is called."""
from __future__ import annotations

import importlib
import os
import tempfile
import warnings
from typing import Any, Mapping, Sequence

import numpy as np

from vernier._arrays import Array
from vernier._build import build
from vernier._engine import Engine, Session
from vernier._error import Error
from vernier._reports import BuildReport
from vernier._values import Path, kind

#: Of the rms of an output: more than this between the engine and the module is no rounding.
_MOST_DIFFERENCE = 0.1


def from_torch(module: Any, example_inputs: Mapping[str, Any] | Sequence[Any], engine: Path, *,
               dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
               output_names: Sequence[str] | None = None, onnx: Path | None = None,
               **options: Any) -> BuildReport:
    """Exports a torch.nn.Module to ONNX and compiles it into an engine file.

        from_torch(model, {"input_ids": ids, "attention_mask": mask}, "model.vn", mode="bf16",
                   dynamic_shapes={"input_ids": {0: "batch", 1: "seq"},
                                   "attention_mask": {0: "batch", 1: "seq"}},
                   shapes={"batch": (1, 32), "seq": (1, 512)})

    example_inputs  tensors by the name of forward()'s arguments, or in their order.
    dynamic_shapes  by input, the axes that vary and their names; None: no size varies. A
                    torch.export.Dim that has a largest size gives `shapes` its range.
    output_names    of the outputs; None: those that the exporter gives.
    onnx            where the ONNX file is kept, which verify() needs; None: nowhere.
    options         those of build().

    The module is put into eval() for the call. The engine's answers to the example are compared
    with the module's: the report has "torch_difference", the rms of the difference as a part of the
    output's rms, by output. More than 0.1 is an Error of code "check_failed", and no engine is left.
    What rounding to `mode` does is verify()'s to judge.
    """
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("onnxscript")
    except ImportError as error:
        raise Error(f"from_torch needs PyTorch and its exporter: {error}; install torch, onnx and "
                    "onnxscript", "input") from error
    if not isinstance(module, torch.nn.Module):
        raise Error(f"module: expected a torch.nn.Module, got {kind(module)}", "input")
    named = isinstance(example_inputs, Mapping)
    arguments = () if named else tuple(example_inputs)
    keywords = dict(example_inputs) if isinstance(example_inputs, Mapping) else {}
    names = list(keywords) if named else None
    was_training = module.training
    module.eval()
    try:
        with tempfile.TemporaryDirectory(prefix="vernier-") as folder, torch.no_grad():
            path = os.path.join(folder, "model.onnx") if onnx is None else os.fspath(onnx)
            _export(torch, module, arguments, keywords, path, names, output_names, dynamic_shapes)
            report = build(path, engine, **({"shapes": _ranges_of(dynamic_shapes)} | options))
            expected = _arrays_of(torch, module(*arguments, **keywords))
        given = list(keywords.values()) if named else list(arguments)
        report["torch_difference"] = _differences(engine, names, given, expected)
    finally:
        module.train(was_training)
    for name, difference in report["torch_difference"].items():
        if not difference <= _MOST_DIFFERENCE:
            os.unlink(engine)
            raise Error(f"output '{name}' of the engine is off from the module's on the example by "
                        f"{difference:.2g} of its rms, more than {_MOST_DIFFERENCE}: the exporter "
                        "wrote another function, or the mode is too narrow; export with onnx= and "
                        "see verify()", "check_failed")
    return report


def _export(torch: Any, module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any],
            path: str, names: list[str] | None, output_names: Sequence[str] | None,
            dynamic_shapes: Any) -> None:
    if isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = dict(dynamic_shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(module, arguments, path, kwargs=keywords, input_names=names,
                              output_names=list(output_names) if output_names else None,
                              dynamic_shapes=dynamic_shapes, dynamo=True, verbose=False,
                              external_data=True)
        except Exception as error:  # of many kinds, all PyTorch's
            raise Error(f"PyTorch could not export the module to ONNX: {error}", "input") from error


def _ranges_of(shapes: Any) -> dict[str, tuple[int, int]]:
    """Least and most of each torch.export.Dim that has both, by its name."""
    if isinstance(shapes, Mapping):
        shapes = list(shapes.values())
    if isinstance(shapes, (list, tuple)):
        return {name: both for part in shapes for name, both in _ranges_of(part).items()}
    name, least, most = (getattr(shapes, of, None) for of in ("__name__", "min", "max"))
    if not isinstance(name, str) or not name.isidentifier():  # 2*batch is no size of its own
        return {}
    if not isinstance(least, int) or not isinstance(most, int) or most >= 1 << 31:
        return {}
    return {name: (max(least, 1), most)}


def _arrays_of(torch: Any, answer: Any) -> list[Array]:
    """The tensors of what a module returned, in order."""
    if isinstance(answer, torch.Tensor):
        return [np.asarray(answer.detach().to("cpu", torch.float64))]
    if isinstance(answer, Mapping):  # of transformers, too
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        return [array for part in answer for array in _arrays_of(torch, part)]
    return []


def _differences(engine: Path, names: list[str] | None, given: list[Any],
                 expected: list[Array]) -> dict[str, float]:
    session = Session(Engine(engine))
    ports = [port.name for port in session.engine.inputs]
    feeds = dict(zip(names or ports, given))
    got = session.run({name: feeds[name] for name in ports})
    differences = {}
    for (name, array), want in zip(got.items(), expected):
        off = float(np.sqrt(np.mean((array.astype(np.float64) - want) ** 2)))
        scale = float(np.sqrt(np.mean(want ** 2)))
        differences[name] = off / scale if scale else off
    return differences
