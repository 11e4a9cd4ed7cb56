"""Prints the .onnx files below a folder that are no valid models, one path a line, for
classify_models --invalid. Run: .venv/bin/python tools/check_onnx.py FOLDER > invalid.txt
Not valid is what ONNX's own checker refuses, and what ONNX Runtime calls an invalid graph or finds
the types or shapes of to be wrong (not what it merely does not implement). Each file has a process
of its own and ten seconds: the checker does not end on every input."""

import os
import pathlib
import signal
import sys

import onnx
import onnxruntime

LIMIT_SECONDS = 10
WRONG = ("ShapeInferenceError", "TypeInferenceError", "INVALID_GRAPH", "INVALID_PROTOBUF")


def check(path):
    model = onnx.load(path, load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as refusal:
        if any(word in str(refusal) for word in WRONG):
            raise


def is_valid(path):
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_SECONDS)
        try:
            check(path)
        except Exception:  # whatever the checker throws, the file is not valid
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return status == 0


def main(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.onnx")):
        if not is_valid(path):
            print(path.relative_to(folder).as_posix(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
