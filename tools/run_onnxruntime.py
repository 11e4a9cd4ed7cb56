#!/usr/bin/env python3
"""Runs a model with ONNX Runtime, to compare with (tests/cli/make_model_test.cpp).

Usage: .venv/bin/python tools/run_onnxruntime.py MODEL.onnx IN.npz OUT.npz [--keep-qdq]
Arrays are named as the model's inputs and outputs. --keep-qdq: QuantizeLinear and DequantizeLinear
are not fused into products of integers, which ONNX Runtime 1.31 does to float8, too, and refuses.
"""
import sys

import numpy
import onnxruntime


def main():
    keep = sys.argv[4:] == ["--keep-qdq"]
    if len(sys.argv) != 4 and not keep:
        print(__doc__, file=sys.stderr)
        return 2
    model, source, target = sys.argv[1:4]
    options = onnxruntime.SessionOptions()
    if keep:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    with numpy.load(source) as arrays:
        inputs = {name: arrays[name] for name in arrays.files}
    numpy.savez(target, **dict(zip(names, session.run(names, inputs))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
