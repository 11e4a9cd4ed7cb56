#!/usr/bin/env python3
"""Writes the ONNX node cases of the PyPI package `onnx` as <folder>/<case>/model.onnx with
test_data_set_0/{input,output}_<i>.pb, the layout that tests/onnx/stored_cases.h reads.
Usage: node_cases.py FOLDER   (an existing complete FOLDER is left as it is)"""
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node


def write_tensors(values, infos, folder, kind):
    """Stores the tensors of one side; sequences and optionals have no tensor file."""
    for i, value in enumerate(values):
        if isinstance(value, onnx.TensorProto):
            tensor = value
        elif isinstance(value, (np.ndarray, np.generic, int, float)):
            tensor = numpy_helper.from_array(np.asarray(value), infos[i].name)
        else:
            continue
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "wb") as file:
            file.write(tensor.SerializeToString())


def main(folder):
    stamp = os.path.join(folder, f"complete-{onnx.__version__}")
    if os.path.exists(stamp):
        return
    warnings.simplefilter("ignore")
    count = 0
    for case in node.collect_testcases(None):
        data = os.path.join(folder, case.name, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        onnx.save(case.model, os.path.join(folder, case.name, "model.onnx"))
        inputs, outputs = case.data_sets[0]
        write_tensors(inputs, case.model.graph.input, data, "input")
        write_tensors(outputs, case.model.graph.output, data, "output")
        count += 1
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(f"{count} cases\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
