#!/usr/bin/env python3
"""Runs a model with ONNX Runtime, to compare with (tests/cli/make_model_test.cpp).

Usage: .venv/bin/python tools/run_onnxruntime.py MODEL.onnx IN.npz OUT.npz
Arrays are named as the model's inputs and outputs.
"""
import sys

import numpy
import onnxruntime


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    model, source, target = sys.argv[1:]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    with numpy.load(source) as arrays:
        inputs = {name: arrays[name] for name in arrays.files}
    numpy.savez(target, **dict(zip(names, session.run(names, inputs))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
