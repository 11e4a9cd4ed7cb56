"""Vernier: compiles Transformer models from ONNX into engines and proves their precision.

    report = vernier.build("model.onnx", "model.vn", mode="bf16",
                           shapes={"batch": (1, 8), "seq": (4, 128)})
    session = vernier.Session("model.vn")
    outputs = session.run({"input_ids": ids, "attention_mask": mask})
    verdict = vernier.verify("model.vn", "model.onnx").verdict

The words, rules and limits are those of the command line (docs/commands.md, docs/precision.md,
docs/verification.md). Every failure is a vernier.Error with a `code`. build, run and verify release
the interpreter's lock.
"""
try:
    from vernier import _native
except ImportError as _error:  # of the wheel vernier-cuda13
    if "cublasLt" not in str(_error):
        raise
    from vernier import _cublas

    _cublas.load(_error)
    from vernier import _native
from vernier._build import build, calibrate, export_onnx, extract, import_cache
from vernier._engine import Engine, Port, Session
from vernier._error import Error
from vernier._reports import (Bisection, BuildReport, Calibration, Extraction, Inspection,
                              Judgement, Localisation, Reduction, Report, VerifyReport)
from vernier._text import CrossEncoder, TextEncoder
from vernier._torch import from_torch
from vernier._verify import bisect, inspect, judge, localise, reduce, verify

__all__ = ["Bisection", "BuildReport", "Calibration", "CrossEncoder", "Engine", "Error",
           "Extraction", "Inspection", "Judgement", "Localisation", "Port", "Reduction", "Report",
           "Session", "TextEncoder", "VerifyReport", "bisect", "build", "calibrate", "export_onnx",
           "extract", "from_torch", "import_cache", "inspect", "judge", "localise", "reduce",
           "verify"]
__version__ = _native.version
for _public in __all__:  # where users find it, in help() and pickles
    globals()[_public].__module__ = "vernier"
